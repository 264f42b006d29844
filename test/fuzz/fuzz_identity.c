/*
 * fuzz_identity.c - whose process this is, by the launcher's variables
 *
 * The input is the values of the variables, each with its NUL; 0x01 in place of a value: the variable is not set.
 */
#include <stdio.h>
#include <string.h>

#include "boot/identity.h"
#include "boot/member_claim.h"
#include "fuzz.h"

static const char *const names[] = {"PMIX_NAMESPACE", "PMIX_RANK",        "DYAD_NODE",
                                    BOOT_GUEST_OF,    "DYAD_SESSION_DIR", BOOT_OUTER,
                                    BOOT_SERVES};
#define NAMES (sizeof(names) / sizeof(names[0]))

#define IS_STRING(member) (memchr(member, '\0', sizeof(member)) != NULL)

static void check(const struct boot_identity *identity)
{
    char guest_of[BOOT_GUEST_OF_MAX], name[128];
    char *env[2] = {guest_of, NULL};
    struct boot_identity guest;
    struct sockaddr_un address;
    const char *bad;

    FUZZ_CHECK(IS_STRING(identity->nspace) && IS_STRING(identity->outer) &&
               IS_STRING(identity->node));
    FUZZ_CHECK(identity->launched || (!identity->guest_only && !identity->solo));
    FUZZ_CHECK(!identity->launched || identity->rank < UINT32_MAX - 16);
    if (!identity->launched)
        return;
    fuzz_taken++;
    /* What its children are given names the same rank. */
    boot_identity_put_guest_of(identity, guest_of);
    FUZZ_CHECK(strlen(guest_of) < sizeof(guest_of));
    if (identity->nspace[0]) {
        FUZZ_CHECK(boot_identity_read(&guest, env, &bad) == 0);
        FUZZ_CHECK(guest.rank == identity->rank &&
                   strcmp(guest.nspace, identity->nspace) == 0);
        FUZZ_CHECK(guest.guest_only && !boot_identity_same(&guest, identity));
    }
    socklen_t len = boot_member_claim_address(identity, NULL, &address);
    boot_member_claim_name(&address, len, name);
    FUZZ_CHECK(boot_member_claim_named(name, &address) == len);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char text[NAMES][400];
    char *env[NAMES + 1] = {NULL}, value[360];
    struct fuzz_input in = {data, len};
    struct boot_identity identity;
    const char *bad = NULL;
    size_t n = 0;

    for (size_t i = 0; i < NAMES && in.left > 0; i++) {
        fuzz_string(&in, value, sizeof(value));
        if (value[0] == 1)
            continue;
        snprintf(text[n], sizeof(text[n]), "%s=%s", names[i], value);
        env[n] = text[n];
        n++;
    }
    if (boot_identity_read(&identity, env, &bad) == 0)
        check(&identity);
    else
        FUZZ_CHECK(bad != NULL);
    return 0;
}

#define SEED(name, text) fuzz_seed(name, text, sizeof(text) - 1)

void fuzz_seeds(void)
{
    SEED("rank",
         "slurm.pmix.7.0\0"
         "3\0"
         "n7");
    SEED("nested",
         "prte.1\0"
         "0\0"
         "\1\0"
         "4@solo.n7.99.1234\0"
         "/home/u/s");
    SEED("guest",
         "\1\0\1\0"
         "n1\0"
         "12@slurm.pmix.7.0");
    SEED("solo",
         "\1\0\1\0"
         "n1\0\1\0"
         "/home/u/s\0\1\0"
         "1");
    SEED("nobody",
         "\1\0\1\0\1\0"
         "-3@slurm.pmix.7.0");
    SEED("outer",
         "prte.2\0"
         "1\0\1\0\1\0\1\0"
         "2@slurm.pmix.7.0");
    SEED("wrong",
         "x\0"
         "4294967280");
}
