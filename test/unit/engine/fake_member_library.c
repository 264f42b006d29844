/*
 * fake_member_library.c - in place of libdyad_member.so, for test_client_library: its
 * functions are the test's
 */
#include <stddef.h>

#include "engine/core/member_ops.h"

extern const struct member_ops fake_ops;
__attribute__((visibility("default"))) const struct member_ops *dyad_member_ops(
    unsigned abi, const struct boot_loading *loading);

const struct member_ops *dyad_member_ops(unsigned abi, const struct boot_loading *loading)
{
    (void)loading;
    return abi == MEMBER_ABI ? &fake_ops : NULL;
}
