/*
 * pmix_ask.c - asks PMIx about the whole job, again and again, while a file is waited for
 *
 * pmix_ask FILE. What it asks for nobody knows, so each question would go to the server; it
 * must be answered though the rank's member waits for the address of a rank that is late.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include <pmix.h>

static atomic_int opened;

static void *wait_for(void *file)
{
    FILE *in = fopen(file, "r");

    atomic_store(&opened, in ? 1 : -1);
    if (in)
        fclose(in);
    return NULL;
}

int main(int argc, char **argv)
{
    pmix_proc_t self, job;
    pthread_t thread;
    long answers = 0;

    if (argc != 2 || PMIx_Init(&self, NULL, 0) != PMIX_SUCCESS)
        return 2;
    if (pthread_create(&thread, NULL, wait_for, argv[1]) != 0)
        return 2;
    PMIX_LOAD_PROCID(&job, self.nspace, PMIX_RANK_WILDCARD);
    while (!atomic_load(&opened)) {
        pmix_value_t *value = NULL;
        if (PMIx_Get(&job, "pmix.dyad.none", NULL, 0, &value) == PMIX_SUCCESS)
            return 1;
        answers++;
        usleep(1000);
    }
    pthread_join(thread, NULL);
    PMIx_Finalize(NULL, 0);
    printf("%ld answers\n", answers);
    return opened == 1 && answers > 0 ? 0 : 1;
}
