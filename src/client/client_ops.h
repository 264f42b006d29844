/*
 * client/client_ops.h - the one table through which the wrapper reaches the engine
 *
 * The wrapper (libdyad_wrapper.so, libc only) opens libdyad.so.1 from its own directory
 * with dlopen(RTLD_NOW | RTLD_LOCAL) at the first access below a DMD, or on the member's
 * thread, and looks up dyad_engine_ops(). libdyad.so.1 itself links libc only; UCX, PMIx
 * and OpenSSL come with dyad/libdyad_member.so, which only a member and a promoted guest
 * open.
 *
 * Every function: thread-safe; keeps errno unless it fails; never calls an interposed
 * symbol of the wrapper in a way that comes back here (the wrapper's guard is set by the
 * caller). A path that is a `upath` is relative to the DMD, normalised, non-empty, without
 * a leading slash.
 */
#ifndef DYAD_CLIENT_CLIENT_OPS_H
#define DYAD_CLIENT_CLIENT_OPS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define ENGINE_ABI 10

/* What the wrapper gives to the engine. */
struct engine_host {
    unsigned abi;
    /* Called at the start of each engine thread: the wrapper passes all its calls through.
     */
    void (*thread_enter)(void);
    char *const
        *env; /* a copy of the environment at the start; lives as the process does */
    /* Called by a thread of the program in the engine, before it blocks for long and after:
     * in between its signal handlers may run, and with may_cancel it may be cancelled. May
     * be NULL. */
    void (*waits)(bool begins, bool may_cancel);
    /* Run load() where the loader may open files: with a descriptor table that is not the
     * program's, and no fork in the midst of it. May be NULL. */
    void (*run_loader)(void (*load)(void));
};

/* Of bytes of a file. */
enum engine_lock { ENGINE_LOCK_NONE, ENGINE_LOCK_READ, ENGINE_LOCK_WRITE };
#define ENGINE_LOCK_WAIT 4u
#define ENGINE_LOCK_TEST 8u /* could it be had? */
#define ENGINE_LOCK_APPEND \
    0x100u /* of who appends, one thread at a time; offset and length are 0 */

/* A file description open for writing below a DMD, as the engine knows it (a mark); 0:
 * none. */
typedef uint64_t engine_token;

/* Passed from write_closing() to write_closed(). The caller keeps it, since the token
 * does not suffice: once the descriptor is closed another process may end the mark, and
 * the next open of any thread may get its slot. */
struct engine_closing {
    engine_token token;
    char *upath; /* owned by the engine; NULL: the file has no name below the DMD */
    int probe;   /* another description of the file, or -1 */
    bool noted;  /* the homes were told of it at its open */
};

/* A name that is about to appear or to go, from renaming() to renaming_over(). The caller
 * owns it. */
struct engine_renaming {
    uint32_t place[2]; /* by role; 0: none */
    int connection;    /* -1: none */
};
#define ENGINE_RENAMING_NONE \
    {                        \
        .connection = -1     \
    }

enum engine_leave {
    ENGINE_LEAVE_EXIT,   /* linger as DYAD_LINGER says, then leave */
    ENGINE_LEAVE_FAILED, /* the program has failed: leave at once */
    ENGINE_LEAVE_GUEST, /* a guest exits or execs: a promoted one becomes a plain guest, one
                         * that took a dead member's place leaves */
    ENGINE_LEAVE_EXEC,  /* leave at once: the image is about to be replaced */
};

/* The kind of call that a consume() is for. */
enum engine_consume {
    ENGINE_CONSUME_NOW = 0, /* do not wait: only a file that is published already */
    ENGINE_CONSUME_WAIT,    /* an open for reading */
    /* An open for writing that cannot make the file: as one for reading, but waits for a
     * writer of the file only if that one makes it anew. EINPROGRESS: a process of the same
     * program, which need not have made it, is writing it on another node: to be opened
     * with ENGINE_WRITE_JOINS. */
    ENGINE_CONSUME_UPDATE,
    ENGINE_CONSUME_JOIN, /* the same, but does not wait */
    /* A change by name: as NOW, but a file that a process of this node has open for writing
     * stays as it is, and nobody is waited for. */
    ENGINE_CONSUME_NAME,
};

/* An open for writing. */
enum engine_write {
    ENGINE_WRITE_NOW = 0, /* does not wait */
    ENGINE_WRITE_WAITS,   /* may be told to wait for another writer (EINPROGRESS) */
    /* Is to make the file, which a writer on another node has already: until it is written
     * to, it is not published, and nobody else opens it. */
    ENGINE_WRITE_JOINS,
    /* With any of them, a bit: processes of several nodes open it together (MPI_File_open), and
     * may change what is there. */
    ENGINE_WRITE_SHARED = 4,
    ENGINE_WRITE_ONCE = 8, /* write_opened() may not fail with ESTALE */
};

/* The DMD that a upath belongs to. With DYAD_PATH alone both are one. */
enum engine_role { ENGINE_CONSUMER = 0, ENGINE_PRODUCER = 1 };

struct engine_ops {
    unsigned abi;

    /* --- process --- */

    /* Read configuration and identity; once, before anything else. 0, or -1: the engine
     * is not used in this process (the reason was logged once); the wrapper then passes
     * all calls through. Starts no thread, uses no network. */
    int (*setup)(const struct engine_host *host);
    /* Run the member of this rank: join and serve until leave(). On a thread of its own
     * with all signals blocked; takes over claim_fd (the caller keeps its own copy open
     * for exec). Returns 0 after leave(), -1 if joining failed (logged; the process then
     * goes on with plain local files). */
    int (*member_run)(int claim_fd);
    /* Called by the thread that exits or execs. Returns when the member has left, in
     * bounded time beyond the linger. No effect in a guest. After a failed exec the
     * process may call member_run() on a new thread again. Idempotent. */
    void (*leave)(enum engine_leave how);
    /* In the child of fork: forget the parent's threads and state; this is a guest now. */
    void (*fork_child)(void);

    /* --- reading --- */

    /* True if read_begin() is to be called, because other nodes see the files of this
     * role, or files here may be out of date. Some loads, from anywhere: the caller need
     * not block signals, as for other calls. */
    bool (*shares)(enum engine_role role);
    /* If so, before the real open of upath: if it is here and another node writes it, or
     * it is not validated yet, wait as DYAD_WAIT and DYAD_TIMEOUT say until that is over.
     * The real open must come afterwards: a network file system shows the bytes of a
     * close only to opens that come after it. Not needed after consume(). 0, or -1 with
     * errno as consume(). */
    int (*read_begin)(enum engine_role role, const char *upath);
    /* A number that rises when a description that was open for writing has ended on this
     * node. One load. */
    uint32_t (*writes_ended)(enum engine_role role);
    /* True if the file that the real open of upath has, as fstat() describes it, is not
     * being written, nor superseded: read_check() is not needed. Some loads, as shares().
     * A file may become superseded by the end of who writes it: it counts only if
     * writes_ended() is the same after this as before the fstat(). */
    bool (*read_is_plain)(enum engine_role role, const char *upath, const struct stat *st);
    /* The real open of upath returned fd, of any type. 0: it is complete, or
     * DYAD_WAIT does not wait for it. 1: another process is writing it; close fd, call
     * consume() and open again. 2: the same, but if it is the file that consume() has been
     * called for it is complete for this process. */
    int (*read_check)(enum engine_role role, const char *upath, int fd);
    /* Make upath present and complete here, waiting as DYAD_WAIT and DYAD_TIMEOUT say. A
     * directory is made, a symbolic link is made (its target is another upath). 0,
     * or -1 with errno: ENOENT, ETIMEDOUT, EIO, EHOSTUNREACH, ENOSPC, EINTR ... ESTALE: one
     * of the directories above upath is a symbolic link here, now: resolve the path again
     * and repeat. */
    int (*consume)(enum engine_role role, const char *upath, enum engine_consume how);
    /* Look up a upath that is not here. 0 and *st filled (size, mode with the type: a
     * file, a directory or a symbolic link; mtime, uid and gid of this process, nlink 1
     * (a directory: 2), blksize 4096), or -1: ENOENT; EIO: the ranks that would know
     * cannot be reached; ESTALE as for consume(). Does not wait or fetch; but if upath is
     * not published, directories above it that are published are made here, so that the
     * next look-up costs less. */
    int (*lookup)(enum engine_role role, const char *upath, struct stat *st);
    /* List the names that are published directly below directory upath ("": the DMD
     * itself), on any node, this one included: fn for each, in no order, once; `type` is
     * DT_REG, DT_DIR or DT_LNK. The control directory is left out. 0; the result of fn if
     * that is not 0 (it ends the list); or -1 with errno: ENOTSUP with DYAD_LISTING=off.
     * Includes all that the homes had acknowledged before the call. fn may call the
     * engine. */
    int (*list)(enum engine_role role, const char *upath,
                int (*fn)(void *arg, const char *name, unsigned char type), void *arg);
    /* Make each directory above upath here that is published and not here. Does not wait.
     * 0 (the parent is here now, or was), or -1 with errno: ENOENT: one of them is
     * neither; ESTALE: one of them is a symbolic link, which is here now: resolve the
     * path again and repeat; ENOTDIR. */
    int (*bring_parents)(enum engine_role role, const char *upath);
    /* Bring all here that is published at or below upath (files with their bytes): for
     * walks inside libc, and before a directory is renamed. Does not wait for a publish.
     * 0 or -1 with errno. */
    int (*bring_tree)(enum engine_role role, const char *upath);

    /* --- writing --- */

    /* Before the real open for writing. If flags have none of O_TRUNC and O_EXCL and the
     * file is not here but published elsewhere, it is fetched first. *token is 0 if the
     * file needs no mark. 0, or -1 with errno. EINPROGRESS, only if the open WAITS:
     * another process is making the file here: wait for it by
     * consume(ENGINE_CONSUME_UPDATE). client/client_join.c says when. */
    int (*write_begin)(enum engine_role role, const char *upath, int flags,
                       enum engine_write how, engine_token *token);
    /* The real open returned fd (fd >= 0), or failed (-1). 0; or -1 with EINPROGRESS, as
     * for write_begin(), if the file was made or emptied since, or ESTALE, if another
     * process of the node has brought it since: the token is void, and the caller closes fd, and
     * begins anew. */
    int (*write_opened)(engine_token token, int fd, int flags);
    /* The token of a descriptor that this image inherited, open for writing below a DMD,
     * or 0. */
    engine_token (*write_inherited)(enum engine_role role, int fd);
    /* Before the close of this process's last descriptor of the description: remember its
     * present name. fd -1: it is closed already. Each call is followed by one of
     * write_closed(). */
    void (*write_closing)(engine_token token, int fd, struct engine_closing *closing);
    /* After the close. `error`: errno of a failed close or flush (0: none): nothing is
     * published then. `mapped`: this process maps the file through this description.
     * Publishes if no other process holds the description and the file was changed since
     * the open. 0, or -1 with errno: the publish failed. */
    int (*write_closed)(struct engine_closing *closing, int error, bool mapped);

    /* --- names --- */

    /* The real unlink or rmdir of upath succeeded (was_here), or failed with ENOENT
     * (!was_here). `renaming`: renaming() to nowhere was called before; or NULL. Withdraws.
     * 0, or -1 ENOENT: nothing of that name is published either. */
    int (*unlinked)(enum engine_role role, const char *upath, bool was_here,
                    struct engine_renaming *renaming);
    /* The real mkdir, symlink, chmod, utimens or the like of upath succeeded: publish the
     * directory or the link; publish a file anew if it was published and differs from that,
     * or has got a second name (a new version). A file that is open for writing is left to
     * its close. 0, or -1 with errno. */
    int (*changed)(enum engine_role role, const char *upath);
    /* Before the real rename, (`from` is NULL) link, or (`to` is NULL) unlink: the file
     * of inode `ino` is about to get another name or none. If this process is killed
     * before renaming_over() the rank's member, or another of this node, publishes and
     * withdraws in its place. Either name may be NULL: outside of the DMD. A second call
     * for a role changes nothing. */
    void (*renaming)(enum engine_role role, const char *from, const char *to, uint64_t ino,
                     struct engine_renaming *renaming);
    /* The real rename succeeded. Either name may be NULL, as above; so may `renaming`:
     * the file was made under that name. */
    int (*renamed)(enum engine_role role, const char *from, const char *to,
                   struct engine_renaming *renaming);
    /* The real call failed, or renamed() or unlinked() was called: ends `renaming`. */
    void (*renaming_over)(struct engine_renaming *renaming);

    /* The file is mapped for writing, which its time stamps need not show: its last close
     * publishes it. */
    void (*write_stored)(engine_token token);
    /* Of an open description: true if what is written by way of it is to be recorded
     * (store/extents.h), so that it can be put together with what other nodes write. This
     * and the next three: async-signal-safe, some loads and stores, from anywhere. */
    bool (*write_recorded)(engine_token token);
    /* `length` bytes at `offset` are about to be written; 0: the file is about to be cut, or
     * extended, to `offset` bytes. `last`: what the call before it returned, or 0. Returns a
     * number for write_record_end(); 0: there is no record. */
    uint64_t (*write_record)(engine_token token, uint64_t last, uint64_t offset,
                             uint64_t length);
    /* After write_record(): true if what other nodes have written is put into the file at this moment. Then
     * its number has to be ended as if nothing had been written, _await() called, and the write
     * recorded once more. */
    bool (*write_held)(engine_token token);
    void (*write_await)(engine_token token, int fd);
    /* It was written: up to `end`; planned was `planned_end`. Of a cut `end` is that, or anything else: it has failed. */
    void (*write_record_end)(engine_token token, uint64_t number, uint64_t planned_end,
                             uint64_t end);
    /* Something is about to be written in a way that cannot be recorded. */
    void (*write_unrecord)(engine_token token);
    /* Of an open description: true if other nodes write the file, too, so that a read is to see
     * what they have written: then write_show() is to be called before it. As write_recorded(). */
    bool (*write_joint)(engine_token token);
    /* The same, also if what is written is not recorded: then locks are those of all nodes. */
    bool (*write_shared)(engine_token token);
    /* Bring what other nodes have written to the file that fd has open, until now, into the file
     * here. 0, or -1 with EIO, logged. */
    int (*write_show)(engine_token token, int fd);
    /* Lock, unlock or test `length` bytes at `offset` for this process, on all nodes that write the
     * file, as fcntl(2) does; flags: ENGINE_LOCK_WAIT, _TEST. 0, or -1: EAGAIN another process has a
     * lock; EINTR; ENOENT: it has no name any more, and a lock here is all that is needed; ENOLCK,
     * logged. */
    int (*write_lock)(engine_token token, int fd, uint64_t offset, uint64_t length,
                      enum engine_lock type, unsigned flags);
    /* True if the regular file of inode `ino`, which is here under that name and has
     * several links, is superseded: then it counts as not here, and lookup() and
     * consume() find the published version. For calls on names; opens check it
     * themselves. */
    bool (*superseded)(enum engine_role role, const char *upath, uint64_t ino);
};

/* The table, or NULL if the engine speaks another ABI. */
typedef const struct engine_ops *(*engine_ops_get_fn)(unsigned abi);
#define ENGINE_OPS_SYMBOL "dyad_engine_ops"

#endif
