/*
 * bench_shard.c - memory of a shard, and the time of a search in it: run by `run`
 *
 *   bench_shard N    N names of 1,000 directories, each with an entry: prints the bytes of
 *                    one, in all that malloc has for them, and microseconds of a search
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "dht/shard.h"

static double now(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (double)ts.tv_sec * 1e6 + (double)ts.tv_nsec / 1e3;
}

static struct dht_key name(long i, char *upath, size_t size)
{
    struct dht_key key;

    snprintf(upath, size, "run/%03ld/frame.%07ld.h5", i % 1000, i);
    dht_key_init(&key, upath, 2);
    return key;
}

int main(int argc, char **argv)
{
    long n = argc > 1 ? atol(argv[1]) : 0;
    struct dht_shard *shard = dht_shard_create(2, 256);
    size_t before = mallinfo2().uordblks;
    char upath[64];
    double start;

    if (n < 1 || !shard || dht_shard_keep_index(shard) < 0)
        return 1;
    for (long i = 0; i < n; i++) {
        struct dht_key key = name(i, upath, sizeof(upath));
        struct dht_record *record = dht_shard_insert(shard, &key, upath);
        if (!record)
            return 1;
        record->entry.state = DYAD_ENTRY_PUBLISHED;
        if (dht_shard_set_listed(shard, record, true) < 0)
            return 1;
    }
    printf("bytes %.1f\n", (double)(mallinfo2().uordblks - before) / (double)n);
    start = now();
    for (long i = 0; i < n; i++) {
        struct dht_key key = name(i, upath, sizeof(upath));
        if (!dht_shard_find(shard, &key, upath))
            return 1;
    }
    printf("search %.4f\n", (now() - start) / (double)n);
    return 0;
}
