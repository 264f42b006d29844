/*
 * api_pair.c - an example of the C API: a producer and a consumer that say what they share
 *
 *   api_pair produce|consume DIR COUNT
 *   api_pair ahead DIR COUNT        a consumer that says before what it will read
 *   api_pair laminate DIR COUNT     a producer that closes, and seals what is complete then
 *   api_pair seal DIR COUNT         who seals what another has made
 *   api_pair again DIR COUNT        a producer that leaves and joins anew for each file
 *
 * Works with and without libdyad_wrapper.so.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <dyad/dyad.h>

static int complain(const char *what, const char *path, dyad_rc_t rc)
{
    fprintf(stderr, "%s %s: %s (%d)\n", what, path, dyad_strerror(rc), rc);
    return 1;
}

static int produce(const char *path, int i)
{
    FILE *out = fopen(path, "w");
    if (!out || fprintf(out, "content of %d\n", i) < 0 || fclose(out) != 0) {
        perror(path);
        return 1;
    }
    dyad_rc_t rc = dyad_produce(path);
    return rc == DYAD_OK ? 0 : complain("dyad_produce", path, rc);
}

/* It is complete when it is sealed, not when it is closed. */
static int laminate(const char *path, int i)
{
    const char *preload = getenv("LD_PRELOAD");
    FILE *out = fopen(path, "w");
    dyad_rc_t rc;

    if (!out || fprintf(out, "content ") < 0 || fflush(out) != 0) {
        perror(path);
        return 1;
    }
    /* Without the wrapper nobody knows what is open. */
    if (preload && *preload && (rc = dyad_laminate(path)) != DYAD_E_BUSY)
        return complain("dyad_laminate of what is open", path, rc);
    if (fclose(out) != 0 || !(out = fopen(path, "a")) || fprintf(out, "of %d\n", i) < 0 ||
        fclose(out) != 0) {
        perror(path);
        return 1;
    }
    rc = dyad_laminate(path);
    return rc == DYAD_OK ? 0 : complain("dyad_laminate", path, rc);
}

static int is_sealed(const char *path)
{
    struct dyad_metadata metadata;
    dyad_rc_t rc = dyad_lookup(path, &metadata);

    if (rc != DYAD_OK || (metadata.mode & 0222))
        return complain("dyad_lookup of what is sealed", path, rc);
    return 0;
}

/* From another node; a second time changes nothing. */
static int seal(const char *path)
{
    dyad_rc_t rc = dyad_consume_timeout(path, 30);

    for (int i = 0; rc == DYAD_OK && i < 2; i++)
        rc = dyad_laminate(path);
    return rc == DYAD_OK ? is_sealed(path) : complain("dyad_laminate", path, rc);
}

static int consume(const char *path, int i)
{
    char line[64], expected[64];
    struct dyad_metadata metadata;

    dyad_rc_t rc = dyad_consume_timeout(path, 30);
    if (rc != DYAD_OK)
        return complain("dyad_consume_timeout", path, rc);
    rc = dyad_lookup(path, &metadata);
    if (rc != DYAD_OK)
        return complain("dyad_lookup", path, rc);

    snprintf(expected, sizeof(expected), "content of %d\n", i);
    FILE *in = fopen(path, "r");
    if (!in || !fgets(line, sizeof(line), in) || strcmp(line, expected) != 0 ||
        metadata.size != strlen(expected)) {
        fprintf(stderr, "%s: unexpected content or size\n", path);
        return 1;
    }
    fclose(in);
    return 0;
}

/* What is not there, and what is none of ours. */
static int misuse(const char *dir)
{
    char path[4096];
    struct dyad_metadata metadata;
    snprintf(path, sizeof(path), "%s/nobody-writes-this", dir);

    if (dyad_consume_timeout(path, 0) != DYAD_E_AGAIN)
        return complain("consume without waiting", path, dyad_consume_timeout(path, 0));
    if (dyad_lookup(path, &metadata) != DYAD_E_NOT_FOUND)
        return complain("lookup", path, dyad_lookup(path, &metadata));
    if (dyad_produce("/etc/hosts") != DYAD_E_NOT_MANAGED)
        return complain("produce", "/etc/hosts", dyad_produce("/etc/hosts"));
    if (dyad_prefetch(path) != DYAD_OK ||
        dyad_prefetch("/etc/hosts") != DYAD_E_NOT_MANAGED ||
        dyad_prefetch(NULL) != DYAD_E_INVALID)
        return complain("prefetch", path, dyad_prefetch(path));
    if (dyad_consume(NULL) != DYAD_E_INVALID)
        return complain("consume", "(null)", dyad_consume(NULL));
    if (dyad_laminate(path) != DYAD_E_NOT_FOUND ||
        dyad_laminate("/etc/hosts") != DYAD_E_NOT_MANAGED)
        return complain("laminate", path, dyad_laminate(path));
    return 0;
}

/* Without the wrapper access() tells what lies here: it comes without being consumed. */
static int ahead(const char *path)
{
    dyad_rc_t rc = dyad_prefetch(path);

    if (rc != DYAD_OK)
        return complain("dyad_prefetch", path, rc);
    while (access(path, F_OK) != 0)
        usleep(1000);
    return 0;
}

static int again(const char *dir, int count)
{
    for (int i = 0; i < count; i++) {
        char path[4096];
        dyad_rc_t rc = dyad_init();
        if (rc != DYAD_OK)
            return complain("dyad_init", "again", rc);
        snprintf(path, sizeof(path), "%s/api.%d", dir, i);
        if (produce(path, i) != 0)
            return 1;
        rc = dyad_finalize();
        if (rc != DYAD_OK)
            return complain("dyad_finalize", "again", rc);
    }
    puts("again done");
    return 0;
}

int main(int argc, char **argv)
{
    int bad = 0;

    if (argc != 4) {
        fputs("usage: api_pair produce|consume|laminate|seal DIR COUNT\n", stderr);
        return 2;
    }
    if (dyad_consume(argv[2]) != DYAD_E_NOT_INIT) {
        fputs("a call before dyad_init() must fail\n", stderr);
        return 1;
    }
    if (strcmp(argv[1], "again") == 0)
        return again(argv[2], atoi(argv[3]));
    dyad_rc_t rc = dyad_init();
    if (rc != DYAD_OK)
        return complain("dyad_init", "", rc);

    for (int i = 0; i < atoi(argv[3]); i++) {
        char path[4096];
        snprintf(path, sizeof(path), "%s/api.%d", argv[2], i);
        if (strcmp(argv[1], "ahead") == 0)
            bad |= ahead(path);
        if (strcmp(argv[1], "laminate") == 0)
            bad |= laminate(path, i) || is_sealed(path);
        else if (strcmp(argv[1], "seal") == 0)
            bad |= seal(path);
        else
            bad |= strcmp(argv[1], "produce") ? consume(path, i) : produce(path, i);
    }
    bad |= misuse(argv[2]);
    rc = dyad_finalize();
    if (rc != DYAD_OK)
        bad |= complain("dyad_finalize", "", rc);
    if (!bad)
        printf("%s done\n", argv[1]);
    return bad;
}
