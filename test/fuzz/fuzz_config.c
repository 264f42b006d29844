/*
 * fuzz_config.c - the variables of the environment
 *
 * The input is NAME=VALUE strings, each with its NUL. What is read is within bounds, and the message about what is not
 * fits its buffer and has no control character.
 */
#include <string.h>

#include "config/config.h"
#include "config/probes.h"
#include "fuzz.h"

#define VARIABLES 12
#define LENGTH    600

static void check_message(const char *text, size_t size)
{
    FUZZ_CHECK(memchr(text, '\0', size) != NULL && text[0]);
    for (; *text; text++)
        FUZZ_CHECK((unsigned char)*text >= 0x20 && *text != 0x7f);
}

static void check(const struct engine_config *config)
{
    FUZZ_CHECK(!config->path_producer || config->path_producer[0] == '/');
    FUZZ_CHECK(!config->path_consumer || config->path_consumer[0] == '/');
    FUZZ_CHECK(!config->session_dir || config->session_dir[0] == '/');
    FUZZ_CHECK(config->key_depth >= 1 && config->key_bins >= 2 && config->replicas >= 1);
    FUZZ_CHECK(config->chunk_size > 0 && config->chunks > 0 && config->chunks <= 64);
    FUZZ_CHECK(config->timeout >= 0 && config->join_timeout >= 0 &&
               config->peer_timeout > 0);
    FUZZ_CHECK(config->wait && config->prefetch && config->dtl_mode);
    FUZZ_CHECK(config->inline_max >= 0 && config->promote >= 0);
    FUZZ_CHECK(config->session_ranks >= 2 && config->session_ranks <= 65536);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char text[VARIABLES][LENGTH];
    char *env[VARIABLES + 1] = {NULL}, err[256] = "", name[64];
    struct fuzz_input in = {data, len};
    struct engine_config config;
    const char *nearest;
    size_t pos = 0;

    for (int i = 0; i < VARIABLES && in.left > 0; i++)
        env[i] = (char *)fuzz_string(&in, text[i], LENGTH);
    if (engine_config_read(&config, env, err, sizeof(err)) < 0) {
        check_message(err, sizeof(err));
    } else {
        fuzz_taken++;
        check(&config);
        probes_declared(&config, "run/out.7");
        probes_glob(config.wait, "run/out.7");
    }
    while (engine_config_unknown(env, &pos, name, sizeof(name), &nearest))
        FUZZ_CHECK(strncmp(name, "DYAD_", 5) == 0 && pos <= VARIABLES);
    engine_config_read(&config, (char *[]){NULL}, err, sizeof(err));
    for (int i = 0; env[i]; i++) {
        char *value = strchr(env[i], '=');
        if (!value)
            continue;
        *value = '\0';
        err[0] = '\0';
        if (engine_config_set(&config, env[i], value + 1, err, sizeof(err)) < 0)
            check_message(err, sizeof(err));
        else
            check(&config);
    }
    return 0;
}

#define SEED(name, text) fuzz_seed(name, text, sizeof(text) - 1)

void fuzz_seeds(void)
{
    SEED("paths",
         "DYAD_PATH=/tmp/ssd\0DYAD_PATH_PRODUCER=/tmp/a\0DYAD_SESSION_DIR=/home/u/s\0"
         "DYAD_LOG_FILE=/tmp/l\0DYAD_PATH_RELATIVE=on");
    SEED("numbers",
         "DYAD_REPLICAS=3\0DYAD_KEY_BINS=1024\0DYAD_CHUNK_SIZE=2MiB\0DYAD_CHUNKS=+8\0"
         "DYAD_SESSION_RANKS=64\0DYAD_TIMEOUT=1.5\0DYAD_LINGER=job\0DYAD_PEER_TIMEOUT=.25");
    SEED("words",
         "DYAD_WAIT=none\0DYAD_PREFETCH=auto\0DYAD_LOG=DEBUG\0DYAD_SHARED_STORAGE=auto\0"
         "DYAD_DTL_MODE=UCX\0DYAD_INTEGRITY=no\0DYAD_STATS=true");
    SEED("globs",
         "DYAD_WAIT=*.h5:run/[a-c]?/**\0DYAD_COMPLETE_AT_EXIT=*.log\0DYAD_TURNS=restart.*\0"
         "DYAD_PROBES=\\*x:[!a]");
    SEED("empty-values", "DYAD_TURNS=\0DYAD_PROBES=\0DYAD_PATH=\0DYAD_CHUNKS=");
    SEED("wrong", "DYAD_CHUNKS=65");
    SEED("out-of-range", "DYAD_CHUNK_SIZE=9223372036854775807G");
    SEED("control", "DYAD_NODE=\x1b[31mred");
    SEED("mistyped", "DYAD_SESION_DIR=/x\0DYAD_\0DYAD_PAHT=1\0DYAD_SESSION=2");
}
