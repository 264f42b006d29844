/*
 * in_memory.h - whether a secret is anywhere in this process' memory
 *
 * The secret is given as its bytes XOR a mask, so that the test itself does not have it. What is read lies
 * in a mapping that is not looked at, and is wiped.
 */
#ifndef TEST_IN_MEMORY_H
#define TEST_IN_MEMORY_H

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/asan_interface.h>
#endif

/* Not known to the compiler, which would put the secret into the program. */
static volatile uint8_t in_memory_mask = 0x5a;

#define IN_MEMORY_READ ((size_t)1 << 20)

static inline void in_memory_unmask(void *secret, const uint8_t *masked, size_t n)
{
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)secret)[i] = masked[i] ^ in_memory_mask;
}

static inline unsigned in_memory_count(const uint8_t *p, size_t len, const uint8_t *masked,
                                       size_t n)
{
    const uint8_t mask = in_memory_mask;
    unsigned found = 0;

    for (size_t i = 0; i + n <= len; i++) {
        size_t k = 0;
        while (k < n && (p[i + k] ^ mask) == masked[k])
            k++;
        found += k == n;
    }
    return found;
}

/* AddressSanitizer's shadow: terabytes, all of which a read would touch, with no byte of the program's. */
static inline bool in_memory_is_shadow(uint64_t at)
{
#ifdef __SANITIZE_ADDRESS__
    size_t scale, offset;
    __asan_get_shadow_mapping(&scale, &offset);
    return at >= offset && at < offset + (((uint64_t)1 << 47) >> scale);
#else
    (void)at;
    return false;
#endif
}

/* How often it is there. */
static inline unsigned in_memory(const uint8_t *masked, size_t n)
{
    uint8_t *buf = mmap(NULL, IN_MEMORY_READ, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    FILE *maps = fopen("/proc/self/maps", "r");
    int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
    unsigned found = 0;
    char line[512];

    if (buf == MAP_FAILED || !maps || mem < 0)
        abort();
    while (fgets(line, sizeof(line), maps)) {
        uint64_t begin, end;
        char mode[5];
        if (sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, mode) != 3 ||
            mode[0] != 'r' || strstr(line, "[v") /* the kernel's */ ||
            in_memory_is_shadow(begin))
            continue;
        while (begin < end) {
            uint64_t own = (uintptr_t)buf, until = end;
            if (begin >= own && begin < own + IN_MEMORY_READ) {
                begin =
                    own + IN_MEMORY_READ; /* of a mapping that is one with its neighbour */
                continue;
            }
            if (begin < own && own < until)
                until = own;
            if (until - begin > IN_MEMORY_READ)
                until = begin + IN_MEMORY_READ;
            ssize_t got = pread(mem, buf, (size_t)(until - begin), (off_t)begin);
            if (got > 0)
                found += in_memory_count(buf, (size_t)got, masked, n);
            begin = until - begin == IN_MEMORY_READ && until < end ? until - n + 1 : until;
        }
    }
    explicit_bzero(buf, IN_MEMORY_READ);
    munmap(buf, IN_MEMORY_READ);
    fclose(maps);
    close(mem);
    return found;
}

#endif
