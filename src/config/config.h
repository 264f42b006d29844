/*
 * config/config.h - the DYAD_* variables
 *
 * One table in config.c is the source of names, types, defaults, ranges and help; the man
 * pages and `dyad-run --help-variables` are printed from it. Links libc only.
 */
#ifndef DYAD_CONFIG_CONFIG_H
#define DYAD_CONFIG_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct engine_config {
    const char *path_producer; /* DYAD_PATH_PRODUCER, else DYAD_PATH; NULL: none */
    const char *path_consumer;
    bool path_relative;
    const char *kvs_namespace; /* NULL: the default session of the job */
    int64_t key_depth, key_bins, replicas;
    const char *dtl_mode;
    const char *net_devices; /* as of UCX_NET_DEVICES, or NULL */
    int shared_storage;      /* 0, 1, or -1 auto */
    bool async_publish, fsync_write, sync_debug;
    double timeout;     /* seconds, 0: no limit */
    double linger;      /* seconds, -1: until the job's other ranks are at exit */
    const char *wait;   /* "auto", "all", "none" or globs separated by ':' */
    const char *probes; /* globs, or NULL */
    const char *node;
    int64_t inline_max;   /* bytes */
    const char *prefetch; /* "off", "auto" or globs */
    int64_t prefetch_bytes;
    const char *complete_at_exit, *complete_at_chmod; /* globs, or NULL */
    const char *turns;                                /* globs, or NULL */
    const char *component;                            /* NULL: the launch */
    const char *session_dir;
    int64_t session_ranks;
    int log_level; /* enum util_log_level */
    const char *log_file;
    bool stats;
    bool port_guard;     /* UCX's port is behind net/door.h */
    bool integrity;      /* payloads have a MAC */
    bool encrypt;        /* connections are encrypted */
    double join_timeout; /* seconds a rank may take to join before it is passed over */
    double peer_timeout; /* seconds a peer may be silent on a request */
    bool listing;        /* directories show what is published */
    int64_t chunk_size, chunks; /* bytes of one GET, how many in flight */
    int64_t poll_us; /* how long threads look for what comes next before they sleep */
    int64_t promote; /* files after which a busy guest is a peer of its own; 0: never */
};

/* Fill *config from env (NULL-terminated) over the defaults. Strings point into env. 0, or
 * -1 EINVAL with a message in err[size] that names the variable, its value and what is
 * allowed. An empty value is as none. Thread-safe; calls nothing that depends on the
 * locale. */
int engine_config_read(struct engine_config *config, char *const env[], char *err,
                       size_t size);

/* Apply one "NAME", "VALUE" pair as engine_config_read does; value stays the caller's and
 * must outlive *config. DYAD_PATH sets both paths, whatever they were. An empty value
 * restores the default. */
int engine_config_set(struct engine_config *config, const char *name, const char *value,
                      char *err, size_t size);

/* Find variables of env whose names begin with DYAD_ and mean nothing here: mistyped,
 * mostly. Start with *pos = 0 and call until it returns false. `name` gets the name (cut if
 * it is longer), *nearest the known name that is most like it, or NULL: none is. */
bool engine_config_unknown(char *const env[], size_t *pos, char *name, size_t size,
                           const char **nearest);

/* Print the table: for people (troff false) or as man page items. */
void engine_config_help(FILE *out, bool troff);

#endif
