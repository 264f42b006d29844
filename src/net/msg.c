/*
 * msg.c - one table of fields per type, one walk that encodes and decodes
 *
 * An encoding is a head and then, in the order of walk(), those fields that the table gives
 * the type. Fields that a type does not carry are ignored by the encoder and are zero after
 * decoding. A upath is a u16 length (0: none), the bytes and a NUL, so that
 * a decoded one points into the buffer; a blob is a u32 length and the bytes, last. The
 * decoder must consume the buffer exactly. What could go wrong: a peer that sends a name
 * which leads out of the DMD; so a upath is checked here, once, for every room, and again
 * by the kernel (store/dmd.h).
 */
#include "net/msg.h"

#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>

#include "net/codec.h"

/* Fields that are one number each: field, bit, width, member. */
#define NUMBERS(X)                  \
    X(RANK, 12, u32, rank)          \
    X(NRANKS, 13, u32, nranks)      \
    X(LOSSES, 14, u32, losses)      \
    X(ASKS, 15, u32, asks)          \
    X(LEASE, 16, u64, lease_ns)     \
    X(AFTER, 17, u64, after)        \
    X(END, 18, u64, end)            \
    X(MARK, 19, u64, mark)          \
    X(THREAD, 20, i32, thread)      \
    X(FD, 21, i32, fd)              \
    X(TIMEOUT, 22, u64, timeout_ms) \
    X(INO, 23, u64, ino)            \
    X(DEV, 24, u64, dev)            \
    X(BTIME, 25, u64, btime)        \
    X(DIGEST, 27, u64, digest)

enum field {
    NO_ID = 1 << 0,        /* the head is without id */
    UPATH = 1 << 1,        /* entry.upath; may be missing ... */
    UPATH_NEEDED = 1 << 2, /* ... unless this is there too */
    VERSION = 1 << 3,      /* entry.version */
    ENTRY = 1 << 4,        /* the rest of entry */
    NEWER_THAN = 1 << 5,
    RANGE = 1 << 6, /* offset and length: both and their sum are an off_t */
    WAVE = 1 << 7,
    BLOB = 1 << 8,           /* may be missing ... */
    BLOB_NEEDED = 1 << 9,    /* ... unless this is there too */
    BLOB_IS_UPATH = 1 << 10, /* it is a upath with its NUL */
    BLOB_IS_FILE = 1 << 11,  /* it is all the bytes of the entry's file */
    BASE = 1 << 26,
#define X(field, bit, width, member) field = 1 << bit,
    NUMBERS(X)
#undef X
};
#define UPATH_MUST (UPATH | UPATH_NEEDED)
#define BLOB_MUST  (BLOB | BLOB_NEEDED)
#define INLINED    (BLOB | BLOB_IS_FILE)

/* type, name for people, fields */
#define MSG_TABLE(X)                                                                \
    X(HELLO, "hello", NO_ID | LOSSES | ASKS | BLOB_MUST)                            \
    X(PUBLISH, "publish", UPATH_MUST | VERSION | ENTRY | BASE | INLINED | DIGEST)   \
    X(PUBLISH_REPLY, "publish-reply", UPATH | VERSION | ENTRY)                      \
    X(PUBLISH_ENDED, "publish-ended", UPATH_MUST | VERSION)                         \
    X(LOOKUP, "lookup", UPATH_MUST | NEWER_THAN)                                    \
    X(LOOKUP_REPLY, "lookup-reply", UPATH | VERSION | ENTRY | INLINED | DIGEST)     \
    X(LOOKUP_CANCEL, "lookup-cancel", UPATH)                                        \
    X(NOTIFY, "notify", UPATH_MUST | VERSION | ENTRY | INLINED | DIGEST)            \
    X(INVALIDATE, "invalidate", UPATH_MUST | VERSION | ENTRY | RANK)                \
    X(INVALIDATE_REPLY, "invalidate-reply", UPATH | VERSION | RANK)                 \
    X(GET, "get", UPATH_MUST | VERSION | ENTRY | RANGE)                             \
    X(DATA, "data", VERSION | ENTRY | RANGE | DIGEST)                               \
    X(ERROR, "error", UPATH | VERSION)                                              \
    X(PING, "ping", 0)                                                              \
    X(PONG, "pong", LOSSES | LEASE)                                                 \
    X(WAVE, "wave", WAVE)                                                           \
    X(DUMP, "dump", UPATH | AFTER)                                                  \
    X(DUMP_REPLY, "dump-reply", RANK | BLOB)                                        \
    X(GUEST_PRODUCE, "guest-produce", UPATH_MUST | MARK)                            \
    X(GUEST_CONSUME, "guest-consume", UPATH_MUST | THREAD | TIMEOUT)                \
    X(GUEST_STAT, "guest-stat", UPATH_MUST)                                         \
    X(GUEST_WITHDRAW, "guest-withdraw", UPATH_MUST)                                 \
    X(GUEST_RENAME, "guest-rename", UPATH | BLOB | BLOB_IS_UPATH)                   \
    X(GUEST_DUMP, "guest-dump", UPATH | RANK)                                       \
    X(DONE, "done", UPATH | VERSION | ENTRY | INO | DEV)                            \
    X(LIST, "list", UPATH | AFTER | END | BLOB)                                     \
    X(LIST_REPLY, "list-reply", AFTER | END | BLOB)                                 \
    X(GUEST_CHANGED, "guest-changed", UPATH_MUST)                                   \
    X(GUEST_LIST, "guest-list", UPATH)                                              \
    X(GUEST_BRING, "guest-bring", UPATH)                                            \
    X(GUEST_WATCH, "guest-watch", UPATH_MUST | MARK | FD)                           \
    X(REDIRECT, "redirect", VERSION | RANK | INO | BTIME | BLOB)                    \
    X(GET_DIRECT, "get-direct", UPATH_MUST | VERSION | ENTRY | RANGE | INO | BTIME) \
    X(PROMOTED_JOIN, "promoted-join", NRANKS | BLOB)                                \
    X(PROMOTED_FETCH, "promoted-fetch", UPATH_MUST | VERSION | ENTRY | BLOB_MUST)   \
    X(PROMOTED_FETCHED, "promoted-fetched", 0)                                      \
    X(JOIN, "join", 0)                                                              \
    X(JOINED, "joined", 0)                                                          \
    X(LEAVE, "leave", 0)                                                            \
    X(WRITING, "writing", UPATH_MUST | BASE | AFTER)                                \
    X(WRITING_REPLY, "writing-reply", UPATH_MUST | VERSION | BASE | RANK | BLOB)    \
    X(GUEST_WRITING, "guest-writing", UPATH | MARK)                                 \
    X(RESYNC, "resync", 0)                                                          \
    X(RESYNCED, "resynced", 0)                                                      \
    X(NESTED, "nested", RANK)                                                       \
    X(SUBSCRIBE, "subscribe", BLOB_MUST)                                            \
    X(APPEARED, "appeared", UPATH_MUST)                                             \
    X(PIECES, "pieces", UPATH_MUST | VERSION | ENTRY | BASE | RANGE | AFTER | END)  \
    X(PIECES_REPLY, "pieces-reply", RANGE | AFTER)                                  \
    X(SHOW, "show", UPATH_MUST | BASE | RANGE | AFTER | MARK)                       \
    X(SHOWN, "shown", AFTER)                                                        \
    X(GUEST_LOCK, "guest-lock", UPATH_MUST | RANGE | MARK)                          \
    X(LOCK, "lock", UPATH_MUST | RANGE | MARK)                                      \
    X(LOCKED, "locked", 0)

static const struct {
    const char *name;
    unsigned fields;
} table[NET_MSG_TYPE_END] = {
#define X(type, name, fields) [NET_MSG_##type] = {name, fields},
    MSG_TABLE(X)
#undef X
};

/* Every type of the enum has its row. */
#define X(type, name, fields) +1
_Static_assert(0 MSG_TABLE(X) == NET_MSG_TYPE_END - 1,
               "a message type without a row in MSG_TABLE");
#undef X

/* Bytes of the head and of each field; together they bound what is not blob. */
enum {
    HEAD_LEN = 4 + 4 + 4 + 4 + 8,
    VERSION_LEN = 8 + 4 + 4,
    ENTRY_LEN = 4 + 1 + DYAD_STORAGE_ID_LEN + 8 + 4 + 8 + 4 + 4,
    BASE_LEN = 1 + 8 + 8,
    WAVE_LEN = 8 + 8 + 4 + 4 + 8 + 8,
#define X(field, bit, width, member) +sizeof(((struct net_msg *)0)->member)
    NUMBERS_LEN = 0 NUMBERS(X),
#undef X
};
_Static_assert(HEAD_LEN + 2 + DYAD_UPATH_MAX + 1 + 2 * VERSION_LEN + ENTRY_LEN + BASE_LEN +
                       16 + NUMBERS_LEN + WAVE_LEN + 4 <=
                   NET_MSG_HEADER_MAX,
               "NET_MSG_HEADER_MAX is too small");

#define STATUS_MAX 4095 /* the kernel's own bound of an errno value */
#define MODE_MAX   0177777u
#define NSEC_MAX   999999999u
#define CONFLICT   0x80u /* beside the state of an entry */
#define RECORDED   0x40u /* likewise */
#define WRITTEN    0x20u /* likewise */
#define EMPTIED    0x10u /* likewise */
#define CHANGE     0x08u /* likewise */
#define ENDS       0x80u /* beside the kind of a base */
#define STAYS      0x40u /* likewise */
#define JOINT      0x20u /* likewise */
#define LOOKS      0x10u /* likewise */

const char *net_msg_name(enum net_msg_type type)
{
    if ((unsigned)type >= NET_MSG_TYPE_END || !table[type].name)
        return "?";
    return table[type].name;
}

/* A relative path of non-empty components, none of them "." or "..", no NUL inside. */
static bool upath_valid(const char *upath, size_t len)
{
    size_t start = 0;

    if (len == 0 || len > DYAD_UPATH_MAX)
        return false;
    for (size_t i = 0; i <= len; i++) {
        if (i < len && upath[i] == '\0')
            return false;
        if (i < len && upath[i] != '/')
            continue;
        size_t n = i - start;
        if (n == 0 || (n == 1 && upath[start] == '.') ||
            (n == 2 && upath[start] == '.' && upath[start + 1] == '.'))
            return false;
        start = i + 1;
    }
    return true;
}

static bool type_known(unsigned type)
{
    return type > 0 && type < NET_MSG_TYPE_END && table[type].name;
}

static void walk_version(struct codec *c, struct dyad_version *version)
{
    codec_u64(c, &version->counter);
    codec_u32(c, &version->rank);
    codec_u32(c, &version->incarnation);
}

static void walk_upath(struct codec *c, struct net_msg *msg, unsigned fields)
{
    uint16_t len = c->writing && msg->entry.upath ? (uint16_t)strlen(msg->entry.upath) : 0;

    codec_u16(c, &len);
    if (c->failed || len == 0) {
        codec_check(c, !(fields & UPATH_NEEDED));
        return;
    }
    char *bytes = (char *)codec_take(c, (size_t)len + 1);
    if (!bytes)
        return;
    if (c->writing) {
        memcpy(bytes, msg->entry.upath, (size_t)len + 1);
    } else {
        codec_check(c, bytes[len] == '\0' && upath_valid(bytes, len));
        msg->entry.upath = bytes;
    }
}

static bool has_flags(const struct dyad_entry *entry)
{
    return entry->conflict || entry->recorded || entry->written || entry->emptied ||
           entry->change;
}

static void walk_entry(struct codec *c, struct dyad_entry *entry)
{
    uint8_t state =
        (uint8_t)(entry->state | (entry->conflict ? CONFLICT : 0) |
                  (entry->recorded ? RECORDED : 0) | (entry->written ? WRITTEN : 0) |
                  (entry->emptied ? EMPTIED : 0) | (entry->change ? CHANGE : 0));
    uint32_t component = entry->component;

    codec_u32(c, &entry->owner);
    codec_u8(c, &state);
    entry->conflict = state & CONFLICT;
    entry->recorded = state & RECORDED;
    entry->written = state & WRITTEN;
    entry->emptied = state & EMPTIED;
    entry->change = state & CHANGE;
    state &= CHANGE - 1;
    codec_check(c, state <= DYAD_ENTRY_WITHDRAWN &&
                       (!has_flags(entry) || state == DYAD_ENTRY_PUBLISHED));
    entry->state = state;
    codec_bytes(c, entry->storage, sizeof(entry->storage));
    codec_u64(c, &entry->size);
    codec_check(c, entry->size <= DYAD_SIZE_MAX);
    codec_u32(c, &entry->mode);
    codec_check(c, entry->mode <= MODE_MAX);
    codec_i64(c, &entry->mtime_sec);
    codec_u32(c, &component);
    codec_check(c, component < 1u << DYAD_COMPONENT_BITS);
    entry->component = component & ((1u << DYAD_COMPONENT_BITS) - 1);
    codec_u32(c, &entry->mtime_nsec);
    codec_check(c, entry->mtime_nsec <= NSEC_MAX);
}

static void walk_base(struct codec *c, struct dyad_base *base)
{
    uint8_t kind =
        (uint8_t)(base->kind | (base->ends ? ENDS : 0) | (base->stays ? STAYS : 0) |
                  (base->joint ? JOINT : 0) | (base->looks ? LOOKS : 0));

    codec_u8(c, &kind);
    base->ends = kind & ENDS;
    base->stays = kind & STAYS;
    base->joint = kind & JOINT;
    base->looks = kind & LOOKS;
    kind &= LOOKS - 1;
    codec_check(c, kind <= DYAD_BASE_VERSION);
    base->kind = kind;
    codec_u64(c, &base->size);
    codec_u64(c, &base->time);
    codec_u64(c, &base->looked);
}

static bool range_ok(const struct net_msg *msg)
{
    return msg->offset <= INT64_MAX && msg->length <= INT64_MAX - msg->offset;
}

/* What comes with an entry is its file, or nothing. */
static bool is_file_of(const struct dyad_entry *entry, size_t len)
{
    return entry->state == DYAD_ENTRY_PUBLISHED && S_ISREG(entry->mode) &&
           entry->size == len;
}

static void walk_blob(struct codec *c, struct net_msg *msg, unsigned fields)
{
    uint32_t len = (uint32_t)msg->blob_len;

    codec_u32(c, &len);
    if (c->failed || len == 0) {
        codec_check(c, !(fields & BLOB_NEEDED));
        return;
    }
    codec_check(c, len <= NET_MSG_BLOB_MAX);
    uint8_t *bytes = codec_take(c, len);
    if (!bytes)
        return;
    if (c->writing) {
        memcpy(bytes, msg->blob, len);
        return;
    }
    if (fields & BLOB_IS_UPATH)
        codec_check(c, bytes[len - 1] == '\0' && upath_valid((char *)bytes, len - 1));
    if (fields & BLOB_IS_FILE)
        codec_check(c, is_file_of(&msg->entry, len));
    msg->blob = bytes;
    msg->blob_len = len;
}

static void walk(struct codec *c, struct net_msg *msg)
{
    uint8_t version = NET_MSG_VERSION, type = (uint8_t)msg->type, reserved = 0;

    codec_u8(c, &version);
    codec_u8(c, &type);
    codec_u8(c, &msg->flags);
    codec_u8(c, &reserved);
    codec_check(c, type_known(type) && reserved == 0);
    codec_i32(c, &msg->status);
    codec_check(c, msg->status >= 0 && msg->status <= STATUS_MAX);
    codec_u32(c, &msg->source);
    codec_u32(c, &msg->source_incarnation);
    if (c->failed)
        return;
    msg->type = type;

    unsigned fields = table[type].fields;
    if (!(fields & NO_ID))
        codec_u64(c, &msg->id);
    if (fields & UPATH)
        walk_upath(c, msg, fields);
    if (fields & VERSION)
        walk_version(c, &msg->entry.version);
    if (fields & ENTRY)
        walk_entry(c, &msg->entry);
    if (fields & NEWER_THAN)
        walk_version(c, &msg->newer_than);
    if (fields & BASE)
        walk_base(c, &msg->base);
    if (fields & RANGE) {
        codec_u64(c, &msg->offset);
        codec_u64(c, &msg->length);
        codec_check(c, range_ok(msg));
    }
#define X(field, bit, width, member) \
    if (fields & field)              \
        codec_##width(c, &msg->member);
    NUMBERS(X)
#undef X
    if (fields & WAVE) {
        codec_u64(c, &msg->wave.number);
        codec_u64(c, &msg->wave.activity);
        codec_u32(c, &msg->wave.count);
        codec_u32(c, &msg->wave.state);
        codec_u64(c, &msg->wave.candidate);
        codec_u64(c, &msg->wave.name);
    }
    if (fields & BLOB)
        walk_blob(c, msg, fields);
}

/* False if the message has a mistake of the caller's, for which the walk has no errno. */
static bool encodable(const struct net_msg *msg)
{
    if (!type_known((unsigned)msg->type) || msg->status < 0 || msg->status > STATUS_MAX)
        return false;

    unsigned fields = table[msg->type].fields;
    if (fields & UPATH) {
        const char *upath = msg->entry.upath;
        bool there = upath && upath[0];
        if (there ? !upath_valid(upath, strnlen(upath, DYAD_UPATH_MAX + 1))
                  : fields & UPATH_NEEDED)
            return false;
    }
    if (fields & ENTRY &&
        ((unsigned)msg->entry.state > DYAD_ENTRY_WITHDRAWN ||
         (has_flags(&msg->entry) && msg->entry.state != DYAD_ENTRY_PUBLISHED) ||
         msg->entry.size > DYAD_SIZE_MAX || msg->entry.mode > MODE_MAX ||
         msg->entry.mtime_nsec > NSEC_MAX))
        return false;
    if (fields & RANGE && !range_ok(msg))
        return false;
    if (fields & BLOB) {
        const char *blob = msg->blob;
        size_t len = msg->blob_len;
        if (len > NET_MSG_BLOB_MAX || (len > 0 && !blob) ||
            (len == 0 && fields & BLOB_NEEDED))
            return false;
        if (len > 0 && fields & BLOB_IS_UPATH &&
            (blob[len - 1] != '\0' || !upath_valid(blob, len - 1)))
            return false;
        if (len > 0 && fields & BLOB_IS_FILE && !is_file_of(&msg->entry, len))
            return false;
    }
    return true;
}

int net_msg_encode(const struct net_msg *msg, void *buf, size_t size)
{
    if (!encodable(msg)) {
        errno = EINVAL;
        return -1;
    }

    struct net_msg copy = *msg; /* the walk of a decoder writes to it */
    struct codec c = codec_writer(buf, size);
    walk(&c, &copy);
    if (c.failed) {
        errno = EMSGSIZE;
        return -1;
    }
    return (int)(c.at - (uint8_t *)buf);
}

int net_msg_decode(struct net_msg *msg, const void *buf, size_t len)
{
    memset(msg, 0, sizeof(*msg));
    if (len > 0 && *(const uint8_t *)buf != NET_MSG_VERSION) {
        errno = EPROTONOSUPPORT;
        return -1;
    }

    struct codec c = codec_reader(buf, len);
    walk(&c, msg);
    if (c.failed || c.at != c.end) {
        memset(msg, 0, sizeof(*msg)); /* no pointer of a refused message is left about */
        errno = EPROTO;
        return -1;
    }
    return 0;
}

/* --- lists of names --- */

static bool list_type_ok(unsigned char type)
{
    return type == DT_REG || type == DT_DIR || type == DT_LNK;
}

static bool list_name_ok(const char *name, size_t len)
{
    return len > 0 && len <= NAME_MAX && !memchr(name, '/', len) &&
           strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

bool net_list_add(void *buf, size_t size, size_t *used, const char *name,
                  unsigned char type)
{
    size_t len = strlen(name);
    unsigned char *p = (unsigned char *)buf + *used;

    if (size - *used < len + 2)
        return false;
    *p = type;
    memcpy(p + 1, name, len + 1);
    *used += len + 2;
    return true;
}

const char *net_list_next(const void *blob, size_t len, size_t *at, unsigned char *type)
{
    size_t left = len - *at, n;

    if (left < 3)
        return NULL;
    const char *p = (const char *)blob + *at;
    n = strnlen(p + 1, left - 1);
    if (n == left - 1 || !list_type_ok((unsigned char)*p) || !list_name_ok(p + 1, n))
        return NULL;
    *type = (unsigned char)*p;
    *at += n + 2;
    return p + 1;
}
