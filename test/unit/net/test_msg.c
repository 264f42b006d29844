/*
 * test_msg.c - encoding of messages: every type, cut short, with flipped bits, at random,
 * hostile
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "net/msg.h"

#define FUZZ_ROUNDS 200000

static uint64_t random_state = 0x9e3779b97f4a7c15u;

static uint64_t random_next(void) /* xorshift64: the same sequence in every run */
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

/* A message with every member set; the types take what they carry. */
static struct net_msg full_message(enum net_msg_type type)
{
    struct net_msg msg = {
        .type = type,
        .flags = 0x83,
        .status = 116,
        .source = 0xfffffffe,
        .source_incarnation = 7,
        .id = 0x1122334455667788u,
        .entry = {.upath = "a/b c/\xc3\xa4\n.txt",
                  .version = {0xffffffffffffffffu, 3, 9},
                  .owner = 17,
                  .state = DYAD_ENTRY_WITHDRAWN,
                  .size = DYAD_SIZE_MAX,
                  .mode = 0100644,
                  .mtime_sec = -5,
                  .mtime_nsec = 999999999},
        .newer_than = {5, 6, 7},
        .base = {DYAD_BASE_VERSION, 0xfffffffffffffffcu, 0xfffffffffffffffdu, true, true,
                 true, 0xfffffffffffffffbu},
        .offset = 1u << 30,
        .length = 12345,
        .rank = 0xfffffff0,
        .nranks = 0xfffffff1,
        .losses = 0xfffffff2,
        .asks = 0xfffffff3,
        .lease_ns = 0xfffffffffffffff4u,
        .after = 0xfffffffffffffff5u,
        .end = 0xfffffffffffffff6u,
        .mark = 0xfffffffffffffff7u,
        .thread = INT32_MAX,
        .fd = -1,
        .timeout_ms = 0xfffffffffffffff8u,
        .ino = 0xfffffffffffffff9u,
        .dev = 0xfffffffffffffffau,
        .btime = 0xfffffffffffffffbu,
        .wave =
            {.number = 1, .activity = 2, .count = 3, .state = 4, .candidate = 5, .name = 6},
        .blob = "old/name",
        .blob_len = 9,
    };
    memset(msg.entry.storage, 0xa5, sizeof(msg.entry.storage));
    if (type == NET_MSG_PUBLISH || type == NET_MSG_LOOKUP_REPLY || type == NET_MSG_NOTIFY) {
        msg.entry.state = DYAD_ENTRY_PUBLISHED; /* the blob is the file */
        msg.entry.size = msg.blob_len;
        msg.entry.conflict = type == NET_MSG_NOTIFY;
        msg.entry.emptied = !msg.entry.conflict;
    }
    return msg;
}

static void assert_version(const struct dyad_version *a, const struct dyad_version *b)
{
    assert_int_equal(dyad_version_cmp(a, b), 0);
}

/* Fields that are one number each, as msg.h says. */
#define NUMBERS(X)         \
    X(ID, id)              \
    X(RANK, rank)          \
    X(NRANKS, nranks)      \
    X(LOSSES, losses)      \
    X(ASKS, asks)          \
    X(LEASE, lease_ns)     \
    X(AFTER, after)        \
    X(END, end)            \
    X(MARK, mark)          \
    X(THREAD, thread)      \
    X(FD, fd)              \
    X(TIMEOUT, timeout_ms) \
    X(INO, ino)            \
    X(DEV, dev)            \
    X(BTIME, btime)

enum {
#define X(field, member) BIT_##field,
    NUMBERS(X)
#undef X
};

enum {
    HAS_UPATH = 1 << 16,
    HAS_VERSION = 1 << 17,
    HAS_ENTRY = 1 << 18,
    HAS_NEWER = 1 << 19,
    HAS_RANGE = 1 << 20,
    HAS_WAVE = 1 << 21,
    HAS_BLOB = 1 << 22,
    HAS_BASE = 1 << 23,
#define X(field, member) HAS_##field = 1 << BIT_##field,
    NUMBERS(X)
#undef X
};

/* The decoded message carries what the original had, or nothing. Returns which fields it
 * carries. */
static unsigned assert_subset(const struct net_msg *got, const struct net_msg *sent)
{
    unsigned has = 0;

    assert_int_equal(got->type, sent->type);
    assert_int_equal(got->flags, sent->flags);
    assert_int_equal(got->status, sent->status);
    assert_int_equal(got->source, sent->source);
    assert_int_equal(got->source_incarnation, sent->source_incarnation);
    if (got->entry.upath) {
        assert_string_equal(got->entry.upath, sent->entry.upath);
        has |= HAS_UPATH;
    }
    if (got->entry.version.counter) {
        assert_version(&got->entry.version, &sent->entry.version);
        has |= HAS_VERSION;
    }
    if (got->entry.mode) {
        assert_int_equal(got->entry.owner, sent->entry.owner);
        assert_int_equal(got->entry.state, sent->entry.state);
        assert_int_equal(got->entry.conflict, sent->entry.conflict);
        assert_int_equal(got->entry.emptied, sent->entry.emptied);
        assert_memory_equal(got->entry.storage, sent->entry.storage, DYAD_STORAGE_ID_LEN);
        assert_true(got->entry.size == sent->entry.size);
        assert_int_equal(got->entry.mode, sent->entry.mode);
        assert_true(got->entry.mtime_sec == sent->entry.mtime_sec);
        assert_int_equal(got->entry.mtime_nsec, sent->entry.mtime_nsec);
        has |= HAS_ENTRY;
    }
    if (got->newer_than.counter) {
        assert_version(&got->newer_than, &sent->newer_than);
        has |= HAS_NEWER;
    }
    if (got->base.kind) {
        assert_int_equal(got->base.kind, sent->base.kind);
        assert_true(got->base.size == sent->base.size && got->base.time == sent->base.time);
        has |= HAS_BASE;
    }
#define X(field, member)                          \
    if (got->member) {                            \
        assert_true(got->member == sent->member); \
        has |= HAS_##field;                       \
    }
    NUMBERS(X)
#undef X
    if (got->length) {
        assert_true(got->offset == sent->offset && got->length == sent->length);
        has |= HAS_RANGE;
    }
    if (got->wave.number) {
        assert_true(got->wave.activity == sent->wave.activity);
        assert_int_equal(got->wave.count, sent->wave.count);
        assert_int_equal(got->wave.state, sent->wave.state);
        assert_int_equal(got->wave.candidate, sent->wave.candidate);
        assert_int_equal(got->wave.name, sent->wave.name);
        has |= HAS_WAVE;
    }
    if (got->blob) {
        assert_int_equal(got->blob_len, sent->blob_len);
        assert_memory_equal(got->blob, sent->blob, sent->blob_len);
        has |= HAS_BLOB;
    }
    return has;
}

/* What msg.h says that each type carries. */
static const unsigned carries[NET_MSG_TYPE_END] = {
    [NET_MSG_HELLO] = HAS_LOSSES | HAS_ASKS | HAS_BLOB,
    [NET_MSG_PUBLISH] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_BASE | HAS_BLOB,
    [NET_MSG_PUBLISH_REPLY] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY,
    [NET_MSG_PUBLISH_ENDED] = HAS_ID | HAS_UPATH | HAS_VERSION,
    [NET_MSG_LOOKUP] = HAS_ID | HAS_UPATH | HAS_NEWER,
    [NET_MSG_LOOKUP_REPLY] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_BLOB,
    [NET_MSG_LOOKUP_CANCEL] = HAS_ID | HAS_UPATH,
    [NET_MSG_NOTIFY] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_BLOB,
    [NET_MSG_INVALIDATE] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_RANK,
    [NET_MSG_INVALIDATE_REPLY] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_RANK,
    [NET_MSG_GET] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_RANGE,
    [NET_MSG_DATA] = HAS_ID | HAS_VERSION | HAS_ENTRY | HAS_RANGE,
    [NET_MSG_ERROR] = HAS_ID | HAS_UPATH | HAS_VERSION,
    [NET_MSG_PING] = HAS_ID,
    [NET_MSG_PONG] = HAS_ID | HAS_LOSSES | HAS_LEASE,
    [NET_MSG_WAVE] = HAS_ID | HAS_WAVE,
    [NET_MSG_DUMP] = HAS_ID | HAS_UPATH | HAS_AFTER,
    [NET_MSG_DUMP_REPLY] = HAS_ID | HAS_RANK | HAS_BLOB,
    [NET_MSG_GUEST_PRODUCE] = HAS_ID | HAS_UPATH | HAS_MARK,
    [NET_MSG_GUEST_CONSUME] = HAS_ID | HAS_UPATH | HAS_THREAD | HAS_TIMEOUT,
    [NET_MSG_GUEST_STAT] = HAS_ID | HAS_UPATH,
    [NET_MSG_GUEST_WITHDRAW] = HAS_ID | HAS_UPATH,
    [NET_MSG_GUEST_RENAME] = HAS_ID | HAS_UPATH | HAS_BLOB,
    [NET_MSG_GUEST_DUMP] = HAS_ID | HAS_UPATH | HAS_RANK,
    [NET_MSG_DONE] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_INO | HAS_DEV,
    [NET_MSG_LIST] = HAS_ID | HAS_UPATH | HAS_AFTER | HAS_END | HAS_BLOB,
    [NET_MSG_LIST_REPLY] = HAS_ID | HAS_AFTER | HAS_END | HAS_BLOB,
    [NET_MSG_GUEST_CHANGED] = HAS_ID | HAS_UPATH,
    [NET_MSG_GUEST_LIST] = HAS_ID | HAS_UPATH,
    [NET_MSG_GUEST_BRING] = HAS_ID | HAS_UPATH,
    [NET_MSG_GUEST_WATCH] = HAS_ID | HAS_UPATH | HAS_MARK | HAS_FD,
    [NET_MSG_REDIRECT] = HAS_ID | HAS_VERSION | HAS_RANK | HAS_INO | HAS_BTIME | HAS_BLOB,
    [NET_MSG_GET_DIRECT] =
        HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_RANGE | HAS_INO | HAS_BTIME,
    [NET_MSG_PROMOTED_JOIN] = HAS_ID | HAS_NRANKS | HAS_BLOB,
    [NET_MSG_PROMOTED_FETCH] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_BLOB,
    [NET_MSG_PROMOTED_FETCHED] = HAS_ID,
    [NET_MSG_JOIN] = HAS_ID,
    [NET_MSG_JOINED] = HAS_ID,
    [NET_MSG_LEAVE] = HAS_ID,
    [NET_MSG_WRITING] = HAS_ID | HAS_UPATH | HAS_BASE | HAS_AFTER,
    [NET_MSG_WRITING_REPLY] =
        HAS_ID | HAS_UPATH | HAS_VERSION | HAS_BASE | HAS_RANK | HAS_BLOB,
    [NET_MSG_GUEST_WRITING] = HAS_ID | HAS_UPATH | HAS_MARK,
    [NET_MSG_RESYNC] = HAS_ID,
    [NET_MSG_RESYNCED] = HAS_ID,
    [NET_MSG_NESTED] = HAS_ID | HAS_RANK,
    [NET_MSG_SUBSCRIBE] = HAS_ID | HAS_BLOB,
    [NET_MSG_APPEARED] = HAS_ID | HAS_UPATH,
    [NET_MSG_PIECES] = HAS_ID | HAS_UPATH | HAS_VERSION | HAS_ENTRY | HAS_BASE | HAS_RANGE |
                       HAS_AFTER | HAS_END,
    [NET_MSG_PIECES_REPLY] = HAS_ID | HAS_RANGE | HAS_AFTER,
    [NET_MSG_SHOW] = HAS_ID | HAS_UPATH | HAS_BASE | HAS_RANGE | HAS_AFTER | HAS_MARK,
    [NET_MSG_SHOWN] = HAS_ID | HAS_AFTER,
    [NET_MSG_GUEST_LOCK] = HAS_ID | HAS_UPATH | HAS_RANGE | HAS_MARK,
    [NET_MSG_LOCK] = HAS_ID | HAS_UPATH | HAS_RANGE | HAS_MARK,
    [NET_MSG_LOCKED] = HAS_ID,
};

static void test_round_trip(void **state)
{
    (void)state;
    for (int type = 1; type < NET_MSG_TYPE_END; type++) {
        struct net_msg sent = full_message(type), got;
        uint8_t buf[1024];
        int len = net_msg_encode(&sent, buf, sizeof(buf));
        assert_true(len > 0);
        assert_int_equal(net_msg_decode(&got, buf, (size_t)len), 0);
        unsigned has = assert_subset(&got, &sent);
        if (has != carries[type])
            fail_msg("%s carries %#x, not %#x", net_msg_name(type), has, carries[type]);
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(net_msg_name(NET_MSG_HELLO), "hello");
    assert_string_equal(net_msg_name(NET_MSG_DONE), "done");
    assert_string_equal(net_msg_name(0), "?");
    assert_string_equal(net_msg_name(NET_MSG_TYPE_END), "?");
}

/* Decode from an allocation of exactly len bytes, so that a sanitizer sees a read beyond
 * it. */
static int decode_exact(const uint8_t *buf, size_t len, struct net_msg *msg)
{
    uint8_t *exact = malloc(len ? len : 1);
    assert_non_null(exact);
    memcpy(exact, buf, len);
    int rc = net_msg_decode(msg, exact, len);
    if (rc == 0) { /* touch all that it points to */
        size_t sum = msg->entry.upath ? strlen(msg->entry.upath) : 0;
        for (size_t i = 0; i < msg->blob_len; i++)
            sum += ((const uint8_t *)msg->blob)[i];
        assert_true(sum < SIZE_MAX);
        assert_in_range(msg->type, 1, NET_MSG_TYPE_END - 1);
        assert_in_range(msg->entry.state, 0, DYAD_ENTRY_WITHDRAWN);
    } else {
        assert_true(errno == EPROTO || errno == EPROTONOSUPPORT);
        assert_null(msg->entry.upath);
        assert_null(msg->blob);
    }
    free(exact);
    return rc;
}

static void test_truncated(void **state)
{
    (void)state;
    for (int type = 1; type < NET_MSG_TYPE_END; type++) {
        struct net_msg sent = full_message(type), got;
        uint8_t buf[1024];
        int len = net_msg_encode(&sent, buf, sizeof(buf));
        for (int n = 0; n < len; n++) {
            assert_int_equal(decode_exact(buf, (size_t)n, &got), -1);
            assert_int_equal(errno, EPROTO);
            /* nor does the encoder write beyond a short buffer */
            uint8_t *small = malloc((size_t)n ? (size_t)n : 1);
            assert_int_equal(net_msg_encode(&sent, small, (size_t)n), -1);
            assert_int_equal(errno, EMSGSIZE);
            free(small);
        }
        buf[len] = 0;
        assert_int_equal(decode_exact(buf, (size_t)len + 1, &got), -1); /* trailing byte */
        assert_int_equal(errno, EPROTO);
    }
}

static void test_flipped(void **state)
{
    (void)state;
    for (int type = 1; type < NET_MSG_TYPE_END; type++) {
        struct net_msg sent = full_message(type), got;
        uint8_t buf[1024];
        int len = net_msg_encode(&sent, buf, sizeof(buf));
        for (int i = 0; i < len; i++) {
            uint8_t kept = buf[i];
            for (int value = 0; value < 256; value++) {
                buf[i] = (uint8_t)value;
                decode_exact(buf, (size_t)len, &got);
            }
            buf[i] = kept;
        }
        assert_int_equal(decode_exact(buf, (size_t)len, &got), 0);
    }
}

static void test_fuzz(void **state)
{
    int accepted = 0;

    (void)state;
    for (int round = 0; round < FUZZ_ROUNDS; round++) {
        uint8_t buf[256];
        struct net_msg got;
        size_t len;
        if (round % 2) { /* a real message with a few bytes changed and another length */
            struct net_msg sent =
                full_message((int)(1 + random_next() % (NET_MSG_TYPE_END - 1)));
            len = (size_t)net_msg_encode(&sent, buf, sizeof(buf));
            for (unsigned i = random_next() % 4; i > 0; i--)
                buf[random_next() % len] = (uint8_t)random_next();
            if (random_next() % 4 == 0)
                len = random_next() % (len + 1);
        } else {
            len = random_next() % sizeof(buf);
            for (size_t i = 0; i < len; i++)
                buf[i] = (uint8_t)random_next();
            if (len > 2) {
                buf[0] = NET_MSG_VERSION;
                buf[1] = (uint8_t)(random_next() % (NET_MSG_TYPE_END + 1));
            }
        }
        accepted += decode_exact(buf, len, &got) == 0;
    }
    assert_true(accepted > FUZZ_ROUNDS / 20); /* the fuzz is not all noise */
}

static void test_version(void **state)
{
    struct net_msg sent = full_message(NET_MSG_PING), got;
    uint8_t buf[64];
    int len = net_msg_encode(&sent, buf, sizeof(buf));

    (void)state;
    buf[0] = NET_MSG_VERSION + 1;
    assert_int_equal(net_msg_decode(&got, buf, (size_t)len), -1);
    assert_int_equal(errno, EPROTONOSUPPORT);
}

static char *long_path(size_t len)
{
    char *path = malloc(len + 1);
    assert_non_null(path);
    memset(path, 'x', len);
    for (size_t i = 200; i + 1 < len; i += 200)
        path[i] = '/';
    path[len] = '\0';
    return path;
}

/* Refused by the encoder, and by the decoder when it is put into a good message's place. */
static void refuse_upath(const char *upath, size_t len)
{
    struct net_msg msg = full_message(NET_MSG_GUEST_STAT), got;
    uint8_t buf[256];
    char *good = malloc(len + 1);
    assert_non_null(good);
    memset(good, 'g', len);
    good[len] = '\0';
    msg.entry.upath = good;
    int total = net_msg_encode(&msg, buf, sizeof(buf));
    assert_true(total > 0);
    assert_int_equal(net_msg_decode(&got, buf, (size_t)total), 0);
    memcpy((char *)got.entry.upath, upath, len);
    assert_int_equal(decode_exact(buf, (size_t)total, &got), -1);
    assert_int_equal(errno, EPROTO);
    if (strlen(upath) == len) {
        msg.entry.upath = upath;
        assert_int_equal(net_msg_encode(&msg, buf, sizeof(buf)), -1);
        assert_int_equal(errno, EINVAL);
        /* the same as the old name of a rename */
        msg = full_message(NET_MSG_GUEST_RENAME);
        msg.blob = upath;
        msg.blob_len = len + 1;
        assert_int_equal(net_msg_encode(&msg, buf, sizeof(buf)), -1);
        assert_int_equal(errno, EINVAL);
    }
    free(good);
}

static uint64_t le64_at(const uint8_t *p)
{
    uint64_t n = 0;

    for (int i = 7; i >= 0; i--)
        n = n << 8 | p[i];
    return n;
}

/* No file is that large, and an offset that is added to it would overflow. */
static void test_impossible_size(void **state)
{
    struct net_msg sent = full_message(NET_MSG_GET), got;
    const uint64_t size = DYAD_SIZE_MAX;
    uint8_t buf[512], *at = NULL;
    int len = net_msg_encode(&sent, buf, sizeof(buf));

    (void)state;
    for (int i = 0; i + 8 <= len && !at; i++)
        if (le64_at(buf + i) == size)
            at = buf + i;
    assert_non_null(at);
    assert_int_equal(net_msg_decode(&got, buf, (size_t)len), 0);
    at[0]++;
    assert_int_equal(net_msg_decode(&got, buf, (size_t)len), -1);
    assert_int_equal(errno, EPROTO);
    sent.entry.size++;
    assert_int_equal(net_msg_encode(&sent, buf, sizeof(buf)), -1);
    assert_int_equal(errno, EINVAL);
}

static void test_hostile_upaths(void **state)
{
    static const char *const bad[] = {
        "..", "../a", "a/..",  "a/../b", "/etc/passwd", "/",   "a//b",  "a/",
        ".",  "./a",  "a/./b", "a/.",    "//",          "../", "a/b//", "../../x",
    };
    static const char *const good[] = {"...",     "..a", "a..", ".a",
                                       "a/.../b", "a.",  "-",   "\xff\xfe"};
    struct net_msg msg = full_message(NET_MSG_GUEST_STAT), got;
    static uint8_t buf[NET_MSG_HEADER_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        refuse_upath(bad[i], strlen(bad[i]));
    refuse_upath("a\0b", 3);
    refuse_upath("\0ab", 3);
    refuse_upath("ab\0", 3);
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        msg.entry.upath = good[i];
        int len = net_msg_encode(&msg, buf, sizeof(buf));
        assert_true(len > 0);
        assert_int_equal(net_msg_decode(&got, buf, (size_t)len), 0);
        assert_string_equal(got.entry.upath, good[i]);
    }

    /* the longest fits into NET_MSG_HEADER_MAX in every type; one more byte does not go */
    char *longest = long_path(DYAD_UPATH_MAX), *longer = long_path(DYAD_UPATH_MAX + 1);
    for (int type = 1; type < NET_MSG_TYPE_END; type++) {
        msg = full_message(type);
        msg.entry.upath = longest;
        int len = net_msg_encode(&msg, buf, sizeof(buf));
        assert_true(len > 0);
        assert_int_equal(decode_exact(buf, (size_t)len, &got), 0);
        msg.entry.upath = longer;
        if (carries[type] & HAS_UPATH) {
            assert_int_equal(net_msg_encode(&msg, buf, sizeof(buf)), -1);
            assert_int_equal(errno, EINVAL);
        }
    }
    free(longest);
    free(longer);
}

static void refuse_encode(struct net_msg msg)
{
    uint8_t buf[1024];

    errno = 0;
    assert_int_equal(net_msg_encode(&msg, buf, sizeof(buf)), -1);
    assert_int_equal(errno, EINVAL);
}

static void test_encoder_refuses(void **state)
{
    struct net_msg msg;
    static uint8_t blob[NET_MSG_BLOB_MAX + 1], buf[NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX];

    (void)state;
    msg = full_message(0);
    refuse_encode(msg);
    msg = full_message(NET_MSG_TYPE_END);
    refuse_encode(msg);
    msg = full_message(NET_MSG_PUBLISH);
    msg.entry.upath = NULL;
    refuse_encode(msg);
    msg = full_message(NET_MSG_PUBLISH);
    msg.entry.upath = "";
    refuse_encode(msg);
    msg = full_message(NET_MSG_PUBLISH);
    msg.entry.state = 3;
    refuse_encode(msg);
    msg = full_message(NET_MSG_INVALIDATE);
    msg.entry.conflict = true; /* of what is withdrawn */
    refuse_encode(msg);
    msg = full_message(NET_MSG_PUBLISH);
    msg.entry.mtime_nsec = 1000000000;
    refuse_encode(msg);
    msg = full_message(NET_MSG_PUBLISH);
    msg.entry.size = (uint64_t)INT64_MAX + 1;
    refuse_encode(msg);
    msg = full_message(NET_MSG_GET);
    msg.offset = INT64_MAX;
    msg.length = 1;
    refuse_encode(msg);
    msg = full_message(NET_MSG_ERROR);
    msg.status = -1;
    refuse_encode(msg);
    msg = full_message(NET_MSG_HELLO);
    msg.blob_len = 0;
    refuse_encode(msg);
    msg = full_message(NET_MSG_HELLO);
    msg.blob = NULL;
    refuse_encode(msg);
    msg = full_message(NET_MSG_HELLO);
    msg.blob = blob;
    msg.blob_len = sizeof(blob);
    refuse_encode(msg);
    msg.blob_len = NET_MSG_BLOB_MAX;
    assert_true(net_msg_encode(&msg, buf, sizeof(buf)) > 0);
}

/* What comes with an entry is its whole file, a regular one, and published. */
#define HEAD_OF_ENTRY(msg) (24 + 2 + strlen((msg).entry.upath) + 1 + 16)

static void test_inlined(void **state)
{
    static const enum net_msg_type types[] = {NET_MSG_PUBLISH, NET_MSG_LOOKUP_REPLY,
                                              NET_MSG_NOTIFY};
    static uint8_t blob[NET_MSG_BLOB_MAX + 1],
        buf[NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX + 1];

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct net_msg msg = full_message(types[i]), got;
        size_t at = HEAD_OF_ENTRY(msg);
        int len;

        msg.entry.size++;
        refuse_encode(msg);
        msg.entry.size -= 2;
        refuse_encode(msg);
        msg = full_message(types[i]);
        msg.entry.state = DYAD_ENTRY_WITHDRAWN;
        refuse_encode(msg);
        msg = full_message(types[i]);
        msg.entry.mode = 0120777;
        refuse_encode(msg);

        /* The same from a hostile peer. */
        msg = full_message(types[i]);
        len = net_msg_encode(&msg, buf, sizeof(buf));
        assert_int_equal(decode_exact(buf, (size_t)len, &got), 0);
        buf[at + 4] = DYAD_ENTRY_WITHDRAWN;
        assert_int_equal(decode_exact(buf, (size_t)len, &got), -1);
        buf[at + 4] = DYAD_ENTRY_PUBLISHED;
        buf[at + 5 + DYAD_STORAGE_ID_LEN]++; /* the size */
        assert_int_equal(decode_exact(buf, (size_t)len, &got), -1);
        buf[at + 5 + DYAD_STORAGE_ID_LEN]--;
        assert_int_equal(decode_exact(buf, (size_t)len, &got), 0);

        /* None is an answer, too, with any size. */
        msg.blob_len = 0;
        msg.entry.size = DYAD_SIZE_MAX;
        len = net_msg_encode(&msg, buf, sizeof(buf));
        assert_true(len > 0);
        assert_int_equal(decode_exact(buf, (size_t)len, &got), 0);
        assert_null(got.blob);

        msg.blob = blob;
        msg.blob_len = msg.entry.size = NET_MSG_BLOB_MAX;
        assert_true(net_msg_encode(&msg, buf, sizeof(buf)) > 0);
        msg.blob_len = msg.entry.size = NET_MSG_BLOB_MAX + 1;
        assert_int_equal(net_msg_encode(&msg, buf, sizeof(buf)), -1);
        assert_int_equal(errno, EINVAL);
    }
}

/* A name that is not there stays not there. */
static void test_optional(void **state)
{
    struct net_msg msg = full_message(NET_MSG_GUEST_RENAME), got;
    uint8_t buf[256];

    (void)state;
    msg.entry.upath = NULL;
    int len = net_msg_encode(&msg, buf, sizeof(buf));
    assert_int_equal(net_msg_decode(&got, buf, (size_t)len), 0);
    assert_null(got.entry.upath);
    assert_string_equal(got.blob, "old/name");
    msg.entry.upath = "";
    len = net_msg_encode(&msg, buf, sizeof(buf));
    assert_int_equal(net_msg_decode(&got, buf, (size_t)len), 0);
    assert_null(got.entry.upath);
    msg = full_message(NET_MSG_GUEST_RENAME);
    msg.blob = NULL;
    msg.blob_len = 0;
    len = net_msg_encode(&msg, buf, sizeof(buf));
    assert_int_equal(net_msg_decode(&got, buf, (size_t)len), 0);
    assert_null(got.blob);
    assert_int_equal(got.blob_len, 0);
}

static void list_refuses(const char *blob, size_t len)
{
    unsigned char type;
    size_t at = 0;

    assert_null(net_list_next(blob, len, &at, &type));
    assert_int_equal(at, 0);
}

static void test_lists(void **state)
{
    static const struct {
        const char *name;
        unsigned char type;
    } names[] = {
        {"a", DT_REG}, {"with space", DT_DIR}, {"...", DT_LNK}, {"\xff\n", DT_REG}};
    char buf[64], longest[NAME_MAX + 4];
    size_t used = 0, at = 0;
    unsigned char type;

    (void)state;
    for (size_t i = 0; i < 4; i++)
        assert_true(net_list_add(buf, sizeof(buf), &used, names[i].name, names[i].type));
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(net_list_next(buf, used, &at, &type), names[i].name);
        assert_int_equal(type, names[i].type);
    }
    assert_int_equal(at, used);
    assert_null(net_list_next(buf, used, &at, &type));
    /* It fits to the last byte, and not one more. */
    used = sizeof(buf) - 5;
    assert_false(net_list_add(buf, sizeof(buf), &used, "four", DT_REG));
    assert_int_equal(used, sizeof(buf) - 5);
    assert_true(net_list_add(buf, sizeof(buf), &used, "end", DT_REG));
    assert_int_equal(used, sizeof(buf));

    list_refuses("\x08name", 5);
    list_refuses("\x08", 1);
    list_refuses("\x08", 2);
    list_refuses("\x01name", 6);
    list_refuses("\x08.", 3);
    list_refuses("\x04..", 4);
    list_refuses("\x04../x", 6);
    list_refuses("\x04/", 3);
    memset(longest, 'x', sizeof(longest));
    longest[0] = DT_REG;
    longest[sizeof(longest) - 1] = '\0';
    list_refuses(longest, sizeof(longest));
    at = 0;
    longest[NAME_MAX + 1] = '\0';
    assert_non_null(net_list_next(longest, NAME_MAX + 2, &at, &type));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_lists),           cmocka_unit_test(test_round_trip),
        cmocka_unit_test(test_names),           cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped),         cmocka_unit_test(test_fuzz),
        cmocka_unit_test(test_version),         cmocka_unit_test(test_hostile_upaths),
        cmocka_unit_test(test_encoder_refuses), cmocka_unit_test(test_inlined),
        cmocka_unit_test(test_optional),        cmocka_unit_test(test_impossible_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
