/*
 * net/msg.h - the messages between members, and between guests and their member
 *
 * One flat struct holds any message; one table in msg.c says which fields each type
 * carries, and drives both encoder and decoder. Little-endian, versioned, every length
 * checked before use. Pure: no UCX, no I/O, no allocation. Thread-safe (no state).
 */
#ifndef DYAD_NET_MSG_H
#define DYAD_NET_MSG_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "util/entry.h"

#define NET_MSG_VERSION 17

/* Upper bound of an encoded message without its blob: fixed fields and one longest upath.
 */
#define NET_MSG_HEADER_MAX 4608
/* Upper bound of a blob in a message other than DATA (a peer's blob, a dump's page). */
#define NET_MSG_BLOB_MAX 65536

enum net_msg_type {
    NET_MSG_HELLO = 1, /* first message on a connection: blob = the sender's peer blob;
                              losses, asks; flags NET_HELLO_ANSWER */
    NET_MSG_PUBLISH,   /* entry -> home; a withdrawal is an entry in state WITHDRAWN; blob =
                              the bytes of a small file, or none; base */
    NET_MSG_PUBLISH_REPLY, /* status 0, or ESTALE with the home's entry: a higher version, or
                              one that the writer has not seen (dht/base.h) */
    /* to each home that was sent a PUBLISH with bytes: it has ended at all of them, and
     * the bytes of that version may be given; no reply */
    NET_MSG_PUBLISH_ENDED,
    NET_MSG_LOOKUP,        /* upath, flags (NET_LOOKUP_*), newer_than -> home */
    NET_MSG_LOOKUP_REPLY,  /* status 0 + entry, blob as of PUBLISH; ENOENT (entry.state says
                              none or tombstone); EAGAIN: waiter kept */
    NET_MSG_LOOKUP_CANCEL, /* id of the lookup whose waiter is to be dropped; no reply */
    NET_MSG_NOTIFY, /* home -> waiter: entry, blob as of PUBLISH; id = the lookup's id; no
                              reply */
    NET_MSG_INVALIDATE, /* home -> holder of a copy: entry = the newer version or tombstone;
                           with NET_INVALIDATE_NODE: rank */
    NET_MSG_INVALIDATE_REPLY, /* flags NET_INVALIDATE_*, rank as it was asked */
    NET_MSG_GET, /* entry, offset, length -> owner, or another of its node. ERROR ESTALE: it
                  * is out of date; any other ERROR of another rank: it has it not */
    NET_MSG_DATA,  /* reply to GET: offset, length, size of the file in entry; payload */
    NET_MSG_ERROR, /* reply to any request that could not be served: status */
    NET_MSG_PING,  /* flags NET_PING_LEASE */
    NET_MSG_PONG,  /* flags NET_PONG_*, losses, lease_ns */
    NET_MSG_WAVE,  /* exit barrier and quiescence: wave fields (boot/wave.h) */
    NET_MSG_DUMP,  /* flags (NET_DUMP_*), upath, after -> any member */
    NET_MSG_DUMP_REPLY, /* rank, blob = JSON text of a page of its shard; flags
                           NET_DUMP_MORE */
    /* guest -> its member, over the Unix-domain socket; each is answered by NET_MSG_DONE */
    NET_MSG_GUEST_PRODUCE,  /* upath, flags = role, mark */
    NET_MSG_GUEST_CONSUME,  /* upath, flags (NET_LOOKUP_WAIT, NET_CONSUME_*), thread,
                               timeout_ms; the DONE: flags NET_DONE_LOOKED */
    NET_MSG_GUEST_STAT,     /* upath -> DONE with entry, ino, dev */
    NET_MSG_GUEST_WITHDRAW, /* upath */
    NET_MSG_GUEST_RENAME,   /* upath = new name, blob = old name (with its NUL) */
    NET_MSG_GUEST_DUMP,     /* flags and upath as of DUMP, rank (DYAD_RANK_NONE: all) ->
                               DUMP_REPLYs, DONE */
    NET_MSG_DONE,           /* status, entry where one is asked for */
    NET_MSG_LIST, /* upath = directory (none: the DMD itself), after, end; flags, blob:
                     NET_LIST_LIKE -> any member */
    NET_MSG_LIST_REPLY,    /* status; blob = names (net_list_*); flags NET_LIST_MORE, then
                              after, end for the next LIST */
    NET_MSG_GUEST_CHANGED, /* upath, flags = role */
    NET_MSG_GUEST_LIST,    /* upath (none: the DMD itself) -> LIST_REPLYs, DONE */
    NET_MSG_GUEST_BRING,   /* upath, flags NET_BRING_* */
    /* upath, flags = role, mark, fd: another process holds a description that the asker
     * has closed -> DONE when that process is known to settle it, or when it was
     * settled */
    NET_MSG_GUEST_WATCH,
    /* of promoted guests (engine/promoted/promoted.h) */
    NET_MSG_REDIRECT,   /* reply to GET: ask the guest of this blob (without key); ino and
                           btime of the file. Without a blob: ask this rank, which fetches
                           the same version or has it (engine/fetch/relay.h) */
    NET_MSG_GET_DIRECT, /* GET of a promoted guest: entry, offset, length, as of GET; ino,
                           btime as of REDIRECT */
    NET_MSG_PROMOTED_JOIN,    /* on a line between guest and member that stays open. guest:
                                 asks to be one; member: blob = the guest's (with key),
                                 nranks, flags NET_PROMOTED_*; guest: blob = the same with its address */
    NET_MSG_PROMOTED_FETCH,   /* member -> guest: entry, blob = its owner (with key) */
    NET_MSG_PROMOTED_FETCHED, /* its reply: status; 0: the temporary file's descriptor is
                                 with it */
    /* of members that meet in a session directory (engine/membership/session_member.c) */
    NET_MSG_JOIN,   /* the sender is new, and wants the entries it is a home of -> JOINED */
    NET_MSG_JOINED, /* all are there; status ETIMEDOUT: not all of them yet */
    NET_MSG_LEAVE,  /* the sender leaves in order; no reply */
    /* who writes a file that several nodes write (dht/node_writing.c) */
    NET_MSG_WRITING, /* upath, flags = NET_WRITING_*; base (BEGIN): the file as the sender has
                            * found it */
    NET_MSG_WRITING_REPLY, /* to BEGIN, END, ABANDONED: status 0. To ASK: 0 no rank writes
                              it; EBUSY: `rank` does, and EAGAIN will come when that has
                              changed; EOWNERDEAD: `rank` did, after entry.version, and
                              did not end it. To BEGIN with JOINED: rank = one on another
                              node that writes it, too, if there is one; ESTALE: another
                              version than `base` is published. To SHOW: EOWNERDEAD:
                              `rank` did not end it; EIO: a conflict since the asker
                              began; else 0 and rank = the owner, if it
                              is on another node, of a version that was put together,
                              or since then is not on record; blob =
                              the ranks on other nodes that write it, 32 bits each,
                              little-endian; base = the version of which they write changes */
    NET_MSG_GUEST_WRITING, /* guest -> member: upath (END, ABANDONED: may be missing), flags
                              = NET_WRITING_*, with NET_WRITING_PRODUCER; mark */
    /* after a link was broken and is whole again (dht/node_resync.c) */
    NET_MSG_RESYNC,   /* flags -> RESYNCED when the sender, as a home, has the entries that
                         the receiver owns */
    NET_MSG_RESYNCED, /* its reply */
    /* in a session directory (engine/membership/nested.c): rank = the member that has
     * started a launch. Sent to that member: the launch is the sender's; sent by it: the
     * launch is the receiver's. No reply */
    NET_MSG_NESTED,
    /* of DYAD_PREFETCH (engine/fetch/subscribe.c) */
    NET_MSG_SUBSCRIBE, /* blob = patterns, separated by ':'. No reply, but */
    NET_MSG_APPEARED,  /* upath: it matches, and is in the sender's shard; no reply */
    /* of files that several nodes write (engine/publish/pieces_take.c) */
    NET_MSG_PIECES,       /* what the sender's node has written of upath, which the receiver
                           * has published, a chunk at a time; entry = the sender's, in the
                           * version that was refused, offset = payload of the chunks before,
                           * length = of this one; flags NET_PIECES_*; by `after` to `end`
                           * ns (signed) the receiver's clock is ahead of the sender's */
    NET_MSG_PIECES_REPLY, /* status 0: the chunk is kept; to the last one: it is in the file,
                           * and published. EAGAIN: the sender is to publish its own. ESTALE:
                           * a third node has. EEXIST: the receiver's node has written the
                           * same bytes, and who came last is not known: offset, length.
                           * EBUSY: it was never the version `base`; if it was one of `offset`
                           * bytes, with the mtime `length`, the sender may try that.
                           * after = the time by the receiver's clock, ns */
    /* of reads of such files, before they are closed (engine/publish/pieces_show.c) */
    NET_MSG_SHOW,  /* upath, which the sender's node writes, too: send as PIECES what it has
                    * here that was written at `after` ns, by the receiver's clock, or later
                    * (UINT64_MAX: nothing), but for what `mark` stands for, the sender's
                    * node; flags NET_SHOW_*. With HISTORY: when it
                    * was written, without the bytes, from the version `base` to that of `offset`
                    * bytes and the mtime `length` */
    NET_MSG_SHOWN, /* its reply, after these; status; after = for the next SHOW */
    /* of locks of such files (engine/publish/locks.c, locks_held.c) */
    NET_MSG_GUEST_LOCK, /* guest -> member: upath, offset, length, flags = NET_LOCK_* -> DONE:
                         * EAGAIN: another process has a lock there; ENOLCK */
    NET_MSG_LOCK,   /* the same for process `mark` of the sender, on the receiver's node */
    NET_MSG_LOCKED, /* its reply: status as of GUEST_LOCK. With WAIT when it has the lock;
                         * with FORGET there is none */
    NET_MSG_TYPE_END
};

/* HELLO: the sender takes the receiver for dead and asks for a HELLO of its own. */
#define NET_HELLO_ANSWER 0x01u
#define NET_LOOKUP_WAIT  0x01u /* keep a waiter and notify it at the publish */
#define NET_LOOKUP_COPY  0x02u /* the asker will hold a copy: tell it of newer versions */
/* The asker opens it for writing: if it is not published the home takes it for a writer, as
 * after a WRITING (BEGIN, JOINED). */
#define NET_LOOKUP_WRITES 0x04u /* in a LOOKUP_REPLY: another node writes it, too */
/* The asker keeps the answer: send it INVALIDATE for newer versions, also if nothing is
 * published yet. In a LOOKUP_REPLY: the home will. */
#define NET_LOOKUP_KEEP 0x08u
/* In a LOOKUP_REPLY or NOTIFY to a rank that asked with COPY: the home takes the asker
 * for dead, and has not noted it as a holder. The asker must ask again. */
#define NET_LOOKUP_UNNOTED 0x10u
/* In a LOOKUP_REPLY: the home was cut off, or another rank was, and may not have heard of
 * all that is published. */
#define NET_LOOKUP_UNSURE 0x40u
/* In a LOOKUP_REPLY with a tombstone: the sender stood in for the homes, and is none now. */
#define NET_LOOKUP_STOOD_IN 0x20u
/* With COPY and WAIT: the asker has a copy of the version newer_than, and that one is an
 * answer as well. Nobody waits for it: the home is to know of the copy. */
#define NET_LOOKUP_HELD 0x80u
/* PING of a process of the receiver's node: its leases are wanted
 * (engine/coherence/copy_lease.c). */
#define NET_PING_LEASE 0x01u
/* PONG: as NET_LOOKUP_UNSURE; the sender takes the receiver for dead, and sends it no
 * INVALIDATE. */
#define NET_PONG_UNSURE  0x01u
#define NET_PONG_UNKNOWN 0x02u
/* RESYNC: sent because the receiver asked, which need not ask again. */
#define NET_RESYNC_TOO 0x01u
/* The asker opens it for writing: the file only has to be there, whichever process writes
 * to it. With NET_LOOKUP_WAIT: it is here, and the answer comes when the member has
 * validated it; no publish is waited for. */
#define NET_CONSUME_WRITER 0x04u
/* INVALIDATE: remove the older files of any rank of the receiver's node, because `rank`
 * of that node, which may have a copy, does not answer. The reply has the flag and the
 * rank again; status ENOENT: the receiver cannot see the files of that rank. */
#define NET_INVALIDATE_NODE 0x01u
/* INVALIDATE_REPLY: the older file keeps its name there until the newer one is there, so
 * the next version has to be sent, too. */
#define NET_INVALIDATE_STAYS 0x02u
/* If the file is here: wait until no other node writes it. The asker itself looks at the
 * marks of this node. */
#define NET_CONSUME_UNWRITTEN 0x20u
/* The asker opens it for writing, and cannot make it. Another writer is waited for only if it
 * makes the file anew (store_marks_unfinished()). Status EINPROGRESS: a process of the same
 * program has it open for writing on another node, and the asker may join it. */
#define NET_CONSUME_UPDATE 0x10u
/* With WRITER: the open makes the file if there is none, to write it: as NET_LOOKUP_WRITES. */
#define NET_CONSUME_MAKES 0x02u
/* With UPDATE: it joins, whatever program the other one runs. With WRITER: what others are
 * writing may be in it, too, on record with them; then it is superseded here (transfer_end.c). */
#define NET_CONSUME_ANY 0x08u
/* With NET_LOOKUP_WAIT: the file is optional to the asker, which waits only if there is a
 * sign that it will come (engine/fetch/consume_probe.c). */
#define NET_CONSUME_PROBE 0x40u
/* Alone: bring it in the background when it is published; answered at once. */
#define NET_CONSUME_PREFETCH 0x80u
/* DONE of a GUEST_CONSUME: the member has done its startup validation, and has no other
 * way to say so (store/looked.h). */
#define NET_DONE_LOOKED 0x01u

/* flags of PROMOTED_JOIN */
#define NET_PROMOTED_LOCAL 0x01u /* all ranks are in the member's network namespace */
/* WRITING: the sender has it open for writing; no longer; the writer died over it. */
#define NET_WRITING_BEGIN     1u
#define NET_WRITING_END       2u
#define NET_WRITING_ABANDONED 3u
#define NET_WRITING_ASK       4u /* does anybody but the sender write it? */
#define NET_WRITING_FORGET    5u /* the ASK of this id; no reply */
#define NET_WRITING_WANTED    6u /* home -> writer: somebody waits for it; no reply */
/* WRITING: which ranks write it? GUEST_WRITING: bring what these have written (with JOINED:
 * nothing) into the file here, and let them know that this node writes it, too. */
#define NET_WRITING_SHOW   7u
#define NET_WRITING_WHAT   0x07u
#define NET_WRITING_JOINED 0x08u /* of BEGIN: with others, each into its own file */
#define NET_WRITING_OWN    0x10u /* of END: others of its node may write it still */
#define NET_WRITING_NEWEST \
    0x20u /* of GUEST_WRITING, BEGIN with JOINED: the file here is to be that */
#define NET_WRITING_WAITED \
    0x40u /* of GUEST_WRITING, BEGIN with JOINED: readers wait for it though it is there already */
#define NET_WRITING_PRODUCER 0x80u /* of GUEST_WRITING: enum engine_role */
#define NET_PIECES_LAST      0x01u
#define NET_PIECES_CLOCK     0x02u /* no piece: what time is it? */
#define NET_PIECES_SHOWN     0x04u /* in answer to a SHOW: the file is not published with it */
#define NET_PIECES_HISTORY   0x08u /* the same, with HISTORY */
#define NET_PIECES_GIVEN_UP  0x10u /* no piece, and no more of this id: no reply */
/* LOCK: to give it up (NONE), or the type of lock. */
#define NET_LOCK_NONE    0x00u
#define NET_LOCK_READ    0x01u
#define NET_LOCK_WRITE   0x02u
#define NET_LOCK_TYPE    0x03u
#define NET_LOCK_WAIT    0x04u
#define NET_LOCK_TEST    0x08u /* could it be had? */
#define NET_LOCK_FORGET  0x10u /* with NONE: and who waits by that id waits no more */
#define NET_SHOW_OWNER   0x01u /* the receiver's node has published it */
#define NET_SHOW_HISTORY 0x02u
/* GET: the receiver must answer itself, without a REDIRECT; it was named by one, and has
 * the version as a copy, perhaps not yet whole. */
#define NET_GET_OWNER    0x01u
#define NET_GET_JOINS    0x04u /* as NET_CONSUME_ANY, with WRITER */
#define NET_DATA_AHEAD   0x01u /* of DATA, to JOINS: what is being written is in it */
#define NET_GET_RELAY    0x02u
#define NET_DUMP_ENTRIES 0x01u
#define NET_DUMP_WAITING 0x02u
#define NET_DUMP_KEY     0x04u /* explain the one upath */
/* compare what the rank has published with its disk; with KEY: that upath only */
#define NET_DUMP_CHECK 0x08u
/* name the process of the rank's node that has the one upath open for writing now */
#define NET_DUMP_WRITER 0x10u
#define NET_DUMP_MORE   0x80u /* in a reply: ask for the next page */
/* Status of a DUMP_REPLY to a guest, in a session directory: the process that had the slot
 * has left, has died, or has done one of these; none has followed it. */
#define NET_DUMP_LEFT  ESHUTDOWN
#define NET_DUMP_DIED  EOWNERDEAD
#define NET_DUMP_ENDED ESRCH

#define NET_LIST_MORE 0x80u /* in a reply: ask for the next page */
/* LIST: ask for signs that the blob, a name in that directory, will come. The names of
 * the reply are "w": the asked rank's node has it open for writing; "o17": rank 17 has
 * published a name that differs from it in numbers only; "x17": rank 17, which is the
 * asked one, is at its exit; "f": a wait there for a similar name was ended, since no
 * rank was left that could publish. Also with DYAD_LISTING=off. */
#define NET_LIST_LIKE     0x01u
#define NET_BRING_PARENTS 0x01u /* the directories above upath */
#define NET_BRING_TREE    0x02u /* what is at and below upath */

/* The blob of a LIST_REPLY: for each name one byte, its DT_* type, the name, and a NUL. */

struct net_msg {
    enum net_msg_type type;
    uint8_t flags;
    int32_t status;              /* 0 or an errno value */
    uint32_t source;             /* rank of the sender */
    uint32_t source_incarnation; /* its incarnation */
    uint64_t id;                 /* chosen by the requester, echoed in each reply */
    struct dyad_entry entry;     /* entry.upath: decoded, points into the buffer */
    struct dyad_version newer_than;
    struct dyad_base base;
    uint64_t offset, length; /* bytes of the file */
    uint32_t rank;           /* the rank that the message is about */
    uint32_t nranks;         /* ranks of the job */
    uint32_t losses;         /* how often the sender has taken the receiver for dead ... */
    uint32_t asks;           /* ... and has asked then whether it lives */
    uint64_t lease_ns;       /* ns for which a holder may rely on the sender */
    uint64_t after, end;     /* where a page begins (struct dht_list_at; DUMP: entries that
                                earlier pages had); 0 at the first */
    uint64_t mark;           /* the asker's (store/marks.h) */
    int32_t thread;          /* of the asker: it is blocked */
    int32_t fd;              /* of the file, in the asker */
    uint64_t timeout_ms;     /* 0: none */
    uint64_t ino;            /* of the file */
    uint64_t dev;
    uint64_t btime;  /* time of birth */
    uint64_t digest; /* of the bytes, by whose file they are (util/digest.h); 0: none */
    struct {
        uint64_t number;    /* which wave */
        uint64_t activity;  /* sum of the subtree's activity counters */
        uint32_t count;     /* ranks that the sum covers */
        uint32_t state;     /* enum boot_wave_state bits, AND-ed over the subtree */
        uint64_t candidate; /* the lowest of the subtree, and its name */
        uint64_t name;
    } wave;
    const void *blob; /* decoded: points into the buffer */
    size_t blob_len;  /* bytes */
};

/* Encode `msg` into buf[size]. Returns the length in bytes, or -1: EMSGSIZE it does not
 * fit, EINVAL unknown type, a field out of range, a upath or blob that is hostile, too long
 * or missing. Fields that the type does not carry (the table in msg.c) are ignored, and
 * zero after decoding; an optional upath that is NULL or "" is NULL after decoding. The
 * payload of DATA and PIECES is not part of the encoding: it travels beside the header. */
int net_msg_encode(const struct net_msg *msg, void *buf, size_t size);

/* Decode buf[len] into *msg, whose pointers then point into buf. Returns 0 or -1: EPROTO
 * malformed (truncated, trailing bytes, a length or enum out of range, upath without or
 * with an inner NUL, absolute, or with a "..", "." or empty component), EPROTONOSUPPORT
 * another NET_MSG_VERSION. */
int net_msg_decode(struct net_msg *msg, const void *buf, size_t len);

/* Add a name to the blob buf[size] of a list, of which *used bytes are taken. False: it
 * does not fit. `name`: 1..255 bytes, no '/'. */
bool net_list_add(void *buf, size_t size, size_t *used, const char *name,
                  unsigned char type);
/* The name at *at of a list, which moves behind it; NULL at the end or where the blob is
 * malformed (then *at < len): no NUL, no name, one with a '/', "." or "..", or longer than
 * 255 bytes; a type other than DT_REG, DT_DIR, DT_LNK. */
const char *net_list_next(const void *blob, size_t len, size_t *at, unsigned char *type);

/* The bytes of payload that travel with the message. */
static inline uint64_t net_msg_payload(const struct net_msg *msg)
{
    return msg->type == NET_MSG_DATA || msg->type == NET_MSG_PIECES ? msg->length : 0;
}

/* Name of a type for messages to people, "?" if unknown. Static. */
const char *net_msg_name(enum net_msg_type type);

#endif
