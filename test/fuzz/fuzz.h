/*
 * fuzz.h - what the targets have in common
 *
 * A target takes any bytes: LLVMFuzzerTestOneInput(). It ends the process by FUZZ_CHECK() if a promise of the code
 * is broken, or by a fault or a sanitizer. The same source is linked with libFuzzer, which makes inputs, or with
 * replay.c, which runs those that are in the tree.
 */
#ifndef DYAD_TEST_FUZZ_H
#define DYAD_TEST_FUZZ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

/* Of the target: write the inputs that encoders of the library make, each by fuzz_seed(). */
void fuzz_seeds(void);
void fuzz_seed(const char *name, const void *data, size_t len);

/* How many inputs got past all checks of the code: a corpus of which none does is of no use any more. */
extern unsigned long fuzz_taken;

#define FUZZ_CHECK(truth) ((truth) ? (void)0 : fuzz_fail(__FILE__, __LINE__, #truth))
_Noreturn void fuzz_fail(const char *file, int line, const char *what);

/* An input, taken from its beginning; zeros when it has ended. */
struct fuzz_input {
    const uint8_t *at;
    size_t left;
};

void fuzz_take(struct fuzz_input *in, void *to, size_t len);
uint8_t fuzz_u8(struct fuzz_input *in);
uint16_t fuzz_u16(struct fuzz_input *in);
uint64_t fuzz_u64(struct fuzz_input *in);
/* A string of at most size - 1 bytes, up to the next NUL or the input's end. */
const char *fuzz_string(struct fuzz_input *in, char *to, size_t size);

/* A directory of the user's alone, which goes when the process ends in order. The same at each call. */
const char *fuzz_directory(void);

#endif
