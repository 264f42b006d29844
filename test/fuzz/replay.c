/*
 * replay.c - run the inputs that are in the tree through a target
 *
 *   fuzz_TARGET DIRECTORY          each file of it
 *   fuzz_TARGET --seeds DIRECTORY  write the target's seeds there
 *
 * Fails if there is no input, and if the code refuses them all: then the corpus has been left behind.
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

/* Of its own size, so that a sanitizer sees each byte that is read behind it. */
static void run_file(const char *name)
{
    FILE *file = fopen(name, "rb");
    struct stat st;
    uint8_t *data;
    size_t len;

    if (!file || fstat(fileno(file), &st) < 0 ||
        !(data = malloc((size_t)st.st_size + !st.st_size))) {
        perror(name);
        exit(1);
    }
    len = fread(data, 1, (size_t)st.st_size, file);
    if (len != (size_t)st.st_size || ferror(file)) {
        perror(name);
        exit(1);
    }
    fclose(file);
    fprintf(stderr, "%s\n", name); /* the last line before a crash names its input */
    LLVMFuzzerTestOneInput(data, len);
    free(data);
}

int main(int argc, char **argv)
{
    bool seeds = argc == 3 && strcmp(argv[1], "--seeds") == 0;
    struct dirent **names;
    int n;

    if (argc != 2 && !seeds) {
        fprintf(stderr, "usage: %s [--seeds] DIRECTORY\n", argv[0]);
        return 2;
    }
    if (chdir(argv[argc - 1]) < 0 || (n = scandir(".", &names, NULL, alphasort)) < 0) {
        perror(argv[argc - 1]);
        return 1;
    }
    if (seeds)
        fuzz_seeds();
    unsigned long inputs = 0;
    for (int i = 0; i < n; free(names[i++])) {
        if (seeds || names[i]->d_name[0] == '.')
            continue;
        run_file(names[i]->d_name);
        inputs++;
    }
    free(names);
    if (seeds)
        return 0;
    printf("%lu inputs, of which %lu were taken\n", inputs, fuzz_taken);
    return inputs > 0 && fuzz_taken > 0 ? 0 : 1;
}
