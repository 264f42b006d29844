/*
 * fuzz_list.c - the names in a page of a listing
 */
#include <dirent.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/msg.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *page = malloc(len + 1);
    size_t at = 0, before = 0, used = 0;
    unsigned char type;
    const char *name;

    while ((name = net_list_next(data, len, &at, &type))) {
        size_t n = strlen(name);
        FUZZ_CHECK(n > 0 && n <= NAME_MAX && !strchr(name, '/'));
        FUZZ_CHECK(strcmp(name, ".") != 0 && strcmp(name, "..") != 0);
        FUZZ_CHECK(type == DT_REG || type == DT_DIR || type == DT_LNK);
        FUZZ_CHECK(at == before + n + 2 && at <= len);
        FUZZ_CHECK(net_list_add(page, len, &used, name, type));
        before = at;
    }
    FUZZ_CHECK(at == before && used == at && (at == 0 || memcmp(page, data, at) == 0));
    fuzz_taken += at > 0 && at == len;
    free(page);
    return 0;
}

void fuzz_seeds(void)
{
    char page[600], longest[NAME_MAX + 1];
    size_t used = 0;

    net_list_add(page, sizeof(page), &used, "out.1", DT_REG);
    net_list_add(page, sizeof(page), &used, "run", DT_DIR);
    net_list_add(page, sizeof(page), &used, "...", DT_LNK);
    fuzz_seed("names", page, used);
    net_list_add(page, sizeof(page), &used, "..", DT_DIR);
    fuzz_seed("leads-out", page, used);
    memset(longest, 'x', NAME_MAX);
    longest[NAME_MAX] = '\0';
    used = 0;
    net_list_add(page, sizeof(page), &used, longest, DT_REG);
    fuzz_seed("longest", page, used);
}
