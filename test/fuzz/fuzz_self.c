/*
 * fuzz_self.c - a target that shows that the others can fail
 */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    fuzz_taken += len > 0 && data[0] == 't';
    FUZZ_CHECK(len == 0 || data[0] != 'b');
    return 0;
}

void fuzz_seeds(void)
{
    fuzz_seed("taken", "t", 1);
}
