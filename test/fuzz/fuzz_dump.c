/*
 * fuzz_dump.c - what dyad-dht-dump is told by members
 *
 * Each line of the input is an answer: a character whose low bits are the rank, that another page follows, and an error;
 * then the page, as JSON. All is printed in each form, and put to the check; nothing that a terminal would obey comes out.
 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dump_check.h"
#include "dump_client.h"
#include "dump_print.h"
#include "fuzz.h"
#include "net/msg.h"
#include "unit/tools/sample.h"

#define SECOND 1000000000u

static void send_frame(int fd, const struct net_msg *msg)
{
    static uint8_t frame[4 + NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX];
    int len = net_msg_encode(msg, frame + 4, sizeof(frame) - 4);

    FUZZ_CHECK(len > 0);
    const uint32_t prefix = htole32((uint32_t)len);
    memcpy(frame, &prefix, sizeof(prefix));
    FUZZ_CHECK(send(fd, frame, (size_t)len + 4, MSG_NOSIGNAL | MSG_DONTWAIT) == len + 4);
}

/* A page that would make the tool look for millions of ranks, as it may, is none for a fuzzer. */
static bool is_huge(const char *page, size_t len)
{
    json_t *json = json_loadb(page, len, 0, NULL);
    json_int_t nranks = json_integer_value(json_object_get(json, "nranks"));

    json_decref(json);
    return nranks > 1000;
}

static void answer(int fd, const char *data, size_t len)
{
    struct net_msg msg = {.type = NET_MSG_DUMP_REPLY, .source = 1};
    size_t sent = 0;

    while (len > 0 && sent < 100000) {
        const char *end = memchr(data, '\n', len);
        size_t n = end ? (size_t)(end - data) : len;
        if (n > 0 && n < 20000) {
            unsigned how = (unsigned char)data[0] - '0';
            msg.rank = how & 3;
            msg.flags = how & 4 ? NET_DUMP_MORE : 0;
            msg.status = how & 8 ? (how & 1 ? ETIMEDOUT : NET_DUMP_LEFT) : 0;
            msg.blob = data + 1;
            msg.blob_len = is_huge(data + 1, n - 1) ? 0 : n - 1;
            send_frame(fd, &msg);
            sent += n + 1500; /* with what the kernel takes for each */
        }
        data += n + (end != NULL);
        len -= n + (end != NULL);
    }
    msg = (struct net_msg){.type = NET_MSG_DONE};
    send_frame(fd, &msg);
}

static json_t *ask(const uint8_t *data, size_t len)
{
    const struct dump_query query = {NET_DUMP_ENTRIES, NULL, DYAD_RANK_NONE, SECOND,
                                     SECOND};
    char err[256];
    int pair[2];

    FUZZ_CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    answer(pair[1], (const char *)data, len);
    json_t *document =
        dump_client_ask(pair[0], "0123456789abcdef", &query, err, sizeof(err));
    close(pair[0]);
    close(pair[1]);
    return document;
}

static json_t *ask_again(void *arg, uint8_t flags, const char *upath)
{
    (void)flags, (void)upath;
    return json_incref(arg);
}

static void check_text(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)text[i];
        FUZZ_CHECK((c >= 0x20 || c == '\n') && c != 0x7f);
        FUZZ_CHECK(c != 0xc2 || (unsigned char)text[i + 1] >= 0xa0); /* C1 */
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    json_t *document = ask(data, len), *result;
    char *text = NULL;
    size_t size = 0;
    FILE *out;

    if (!document)
        return 0;
    fuzz_taken += json_array_size(json_object_get(document, "shards")) > 0;
    FUZZ_CHECK((out = open_memstream(&text, &size)));
    dump_print_shards(out, document);
    dump_print_entries(out, document);
    dump_print_waiting(out, document);
    dump_print_key(out, document);
    dump_print_unreachable(out, document);
    dump_print_ended(out, document, "left");
    if ((result = dump_check(ask_again, document)))
        dump_check_print(out, result);
    FUZZ_CHECK(fclose(out) == 0);
    check_text(text, size);
    free(text);
    json_decref(result);
    json_decref(document);
    return 0;
}

#define SEED(name, text) fuzz_seed(name, text, sizeof(text) - 1)
#define ENTRY                                                                              \
    "{\"upath\":\"a/"                                                                      \
    "b\",\"state\":\"published\",\"version\":{\"counter\":3,\"rank\":0,\"incarnation\":1}" \
    ","                                                                                    \
    "\"owner\":0,\"homes\":[0,1],\"size\":5,\"age\":1.5,\"path\":[1,2]}"

void fuzz_seeds(void)
{
    SEED("shard",
         "0{\"rank\":0,\"nranks\":2,\"host\":\"n0/"
         "01234567-89ab-cdef-0123-456789abcdef\",\"entries\":[" ENTRY
         "],\"own\":[{\"upath\":\"a/"
         "b\",\"version\":{\"counter\":3,\"rank\":0,\"incarnation\":1},"
         "\"homes\":[0,1]}],\"waiting\":[{\"upath\":\"x\",\"waited\":3}]}\n"
         "1{\"rank\":1,\"nranks\":2,\"entries\":[" ENTRY "],\"own\":[]}");
    SEED("pages",
         "4{\"rank\":0,\"entries\":[{\"upath_hex\":\"ff0a1b\",\"state\":\"withdrawn\"}]}\n"
         "0{\"rank\":0,\"entries\":[" ENTRY "]}\n9{}\n;\n1[]\n0nothing");
    SEED("sample", "0" SAMPLE_SHARD_0 "\n1" SAMPLE_SHARD_1);
    SEED("key",
         "0{\"launch\":\"64a1\",\"launch_rank\":1,\"absent_ranks\":1,\"key\":{\"upath\":"
         "\"a\",\"pending\":true}}");
    SEED("time",
         "0{\"rank\":0,\"uptime\":1e300,\"key\":{\"homes\":[0],\"entry\":{\"mtime\":1e300,"
         "\"mode\":-1}}}");
    SEED("terminal",
         "0{\"rank\":0,\"host\":\"\\u001b[31m\\u0085\\u202e\",\"entries\":[{\"upath\":"
         "\"\\u009b\\n\\u007f\"}]}");
    SEED("wrong",
         "0{\"rank\":0,\"entries\":[{\"upath\":\"a\",\"state\":\"published\",\"owner\":1,"
         "\"homes\":[0],"
         "\"version\":{\"counter\":9}}],\"own\":[]}\n"
         "1{\"rank\":1,\"entries\":[],\"own\":[{\"upath\":\"a\",\"fault\":\"is \\u0001 "
         "gone\",\"homes\":[0,1],"
         "\"version\":{\"counter\":9}}]}");
}
