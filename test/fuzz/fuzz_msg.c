/*
 * fuzz_msg.c - the decoder of messages
 *
 * The input is an encoded message without its first byte, the version. What is decoded has to be fit for use: its
 * upath stays below the directory, its range is an off_t, and it is encoded to the same bytes again.
 */
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "net/msg.h"

static bool leads_out(const char *upath)
{
    char text[DYAD_UPATH_MAX + 3];

    if (strlen(upath) > DYAD_UPATH_MAX || upath[0] == '/')
        return true;
    text[0] = '/';
    strcpy(text + 1, upath);
    strcat(text, "/");
    return strstr(text, "//") || strstr(text, "/./") || strstr(text, "/../");
}

static void check(const struct net_msg *msg, const uint8_t *encoded, size_t len)
{
    static uint8_t again[NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX];

    FUZZ_CHECK(strcmp(net_msg_name(msg->type), "?") != 0);
    FUZZ_CHECK(!msg->entry.upath || !leads_out(msg->entry.upath));
    FUZZ_CHECK(msg->offset <= INT64_MAX && msg->length <= INT64_MAX - msg->offset);
    FUZZ_CHECK(msg->entry.size <= INT64_MAX && msg->status >= 0);
    FUZZ_CHECK(net_msg_payload(msg) <= INT64_MAX);
    FUZZ_CHECK(msg->blob_len == 0 ||
               ((const uint8_t *)msg->blob > encoded &&
                (const uint8_t *)msg->blob + msg->blob_len == encoded + len));
    FUZZ_CHECK(net_msg_encode(msg, again, sizeof(again)) == (int)len);
    FUZZ_CHECK(memcmp(again, encoded, len) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t *encoded = malloc(len + 1);
    struct net_msg msg;

    encoded[0] = NET_MSG_VERSION;
    if (len > 0)
        memcpy(encoded + 1, data, len);
    if (net_msg_decode(&msg, encoded, len + 1) == 0) {
        fuzz_taken++;
        check(&msg, encoded, len + 1);
    }
    free(encoded);
    return 0;
}

/* One of each type, with all that it can carry. */
void fuzz_seeds(void)
{
    struct net_msg msg = {
        .flags = 0x81,
        .source = 3,
        .source_incarnation = 1,
        .id = 77,
        .entry = {.upath = "run/out.7",
                  .version = {5, 3, 1},
                  .owner = 3,
                  .state = DYAD_ENTRY_PUBLISHED,
                  .recorded = true,
                  .size = 4,
                  .mode = 0100644,
                  .mtime_sec = 1700000000,
                  .mtime_nsec = 999},
        .newer_than = {4, 2, 0},
        .base = {.kind = DYAD_BASE_FROM, .size = 4, .time = 9, .ends = true},
        .offset = 1 << 20,
        .length = 4096,
        .rank = 2,
        .nranks = 8,
        .after = 6,
        .blob = "a/b",
        .blob_len = 4,
    };
    uint8_t encoded[NET_MSG_HEADER_MAX];
    char name[64];

    for (int type = 1; type < NET_MSG_TYPE_END; type++) {
        msg.type = (enum net_msg_type)type;
        int len = net_msg_encode(&msg, encoded, sizeof(encoded));
        FUZZ_CHECK(len > 0);
        strcpy(name, net_msg_name(msg.type));
        fuzz_seed(name, encoded + 1, (size_t)len - 1);
    }
}
