/*
 * dyad.h - files of a workflow, shared through node-local storage: the C API
 *
 * For programs that want to say what they produce and consume instead of being intercepted.
 * Works with or without libdyad_wrapper.so in the process. All functions are thread-safe.
 * Link with -ldyad (pkg-config: dyad).
 */
#ifndef DYAD_DYAD_H
#define DYAD_DYAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define DYAD_VERSION_MAJOR 0
#define DYAD_VERSION_MINOR 1
#define DYAD_VERSION_PATCH 0

/** Result of a call: DYAD_OK or one of the negative codes below. */
typedef int dyad_rc_t;

enum dyad_rc {
    DYAD_OK = 0,
    DYAD_E_NOT_INIT = -1,    /**< dyad_init() was not called, or failed */
    DYAD_E_INVALID = -2,     /**< a parameter or a variable has a bad value */
    DYAD_E_NOT_MANAGED = -3, /**< the path is not below a managed directory */
    DYAD_E_NOT_FOUND = -4,   /**< not published, or no process is left that could publish */
    DYAD_E_AGAIN = -5,       /**< not published yet (non-blocking call) */
    DYAD_E_TIMEOUT = -6,     /**< not published within the time allowed */
    DYAD_E_UNREACHABLE = -7, /**< the owner or all homes of the file cannot be reached */
    DYAD_E_NO_SESSION = -8,  /**< no launcher, or joining the session failed */
    DYAD_E_NO_SPACE = -9,    /**< the local storage is full */
    DYAD_E_NO_MEMORY = -10,
    DYAD_E_PERMISSION = -11,
    DYAD_E_IO = -12,   /**< reading or writing the local storage failed */
    DYAD_E_BUSY = -13, /**< the file is still open for writing */
};

/** Text of a code. Static, never NULL. Thread-safe. */
const char *dyad_strerror(dyad_rc_t rc);

/** Parameters of dyad_init_params(). Initialise with DYAD_PARAMS_INIT. A member that is
 * NULL or negative has the value of the environment, else the default. */
struct dyad_params {
    size_t size;               /**< sizeof(struct dyad_params), for later versions */
    const char *path;          /**< DYAD_PATH: both directories */
    const char *path_producer; /**< DYAD_PATH_PRODUCER */
    const char *path_consumer; /**< DYAD_PATH_CONSUMER */
    const char *kvs_namespace; /**< DYAD_KVS_NAMESPACE */
    double timeout;            /**< DYAD_TIMEOUT, seconds; 0: no limit */
    int key_depth;             /**< DYAD_KEY_DEPTH */
    int key_bins;              /**< DYAD_KEY_BINS */
    int replicas;              /**< DYAD_REPLICAS */
};
#define DYAD_PARAMS_INIT                                                     \
    {                                                                        \
        sizeof(struct dyad_params), NULL, NULL, NULL, NULL, -1.0, -1, -1, -1 \
    }

/** Join the session with the DYAD_* variables of the environment. Each success needs one
 * dyad_finalize(). Blocks until this process has joined (or found the member of its
 * rank).
 */
dyad_rc_t dyad_init(void);

/** As dyad_init(), with parameters that override the environment; NULL: none. They are
 * copied. If the process has joined already they are ignored, and DYAD_E_INVALID is
 * returned if one differs. */
dyad_rc_t dyad_init_params(const struct dyad_params *params);

/** Leave. The last call blocks, and serves, until the job's other processes are at exit,
 * or as DYAD_LINGER says; it withdraws nothing. With the wrapper in the process it
 * returns at once (the wrapper leaves at exit). */
dyad_rc_t dyad_finalize(void);

/** Publish the complete file at `path` (absolute, or relative to the working directory;
 * with DYAD_PATH_RELATIVE relative to the managed directory). Returns when all homes
 * have acknowledged. */
dyad_rc_t dyad_produce(const char *path);

/** Wait until `path` is published and fetch it; then open it as usual. Waits at most
 * DYAD_TIMEOUT. */
dyad_rc_t dyad_consume(const char *path);

/** As dyad_consume(), but waits for a publish at most `seconds` (0: DYAD_E_AGAIN at once
 * if it is not published; negative: no limit). A published file is fetched, however long
 * that takes. */
dyad_rc_t dyad_consume_timeout(const char *path, double seconds);

/** Seal `path`, as `chmod a-w` does: take all permissions to write away, and publish that; a file
 * that was not published is. One call on any node does for all, when all who write the file
 * have closed it. Who waits for a file that DYAD_COMPLETE_AT_CHMOD declares has it then.
 * DYAD_E_BUSY if a process of this node has it open for writing, or the newest version could not
 * be sealed; DYAD_E_NOT_FOUND if it is neither here nor published. */
dyad_rc_t dyad_laminate(const char *path);

/** Let `path` be fetched in the background as soon as it is published, so that a later open
 * finds it. A hint: returns at once, and nothing is reported if it cannot be had. It does
 * nothing with DYAD_PREFETCH=off, and keeps within DYAD_PREFETCH_BYTES. Of the names that
 * are not opened yet the last 256 count. */
dyad_rc_t dyad_prefetch(const char *path);

/** Metadata of a published file. */
struct dyad_metadata {
    uint64_t size; /**< bytes */
    uint32_t mode; /**< permission bits */
    int64_t mtime_sec;
    uint32_t mtime_nsec;
    uint32_t owner_rank; /**< rank whose member serves it */
    uint64_t version;    /**< raised by each publish */
};

/** Look `path` up without fetching or waiting; fills *metadata. DYAD_E_NOT_FOUND if it is
 * not published. */
dyad_rc_t dyad_lookup(const char *path, struct dyad_metadata *metadata);

/** Withdraw `path`: it is no longer published. The local file stays. DYAD_E_NOT_FOUND if it
 * was not published. */
dyad_rc_t dyad_withdraw(const char *path);

#ifdef __cplusplus
}
#endif

#endif
