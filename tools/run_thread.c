/*
 * run_thread.c - looks for the name of the runtime's first function
 *
 * Where the runtime is a shared library the program asks for it by that name, where it is
 * part of the program (clang) it offers it: so the name is among the dynamic strings. (Not
 * with gcc's -static-libtsan, which offers nothing.)
 */
#include "run_thread.h"

#include <fcntl.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct image {
    const unsigned char *at;
    size_t size;
    const ElfW(Phdr) * segment;
    unsigned n;
};

/* size bytes at an offset of the file, or NULL: it does not have them. */
static const void *bytes(const struct image *image, uint64_t offset, uint64_t size)
{
    return offset <= image->size && size <= image->size - offset ? image->at + offset
                                                                 : NULL;
}

/* The same at an address of the loaded program. */
static const void *loaded(const struct image *image, uint64_t address, uint64_t size)
{
    for (unsigned i = 0; i < image->n; i++) {
        const ElfW(Phdr) *s = &image->segment[i];
        if (s->p_type == PT_LOAD && address >= s->p_vaddr &&
            address - s->p_vaddr <= s->p_filesz &&
            size <= s->p_filesz - (address - s->p_vaddr))
            return bytes(image, s->p_offset + (address - s->p_vaddr), size);
    }
    return NULL;
}

static bool has_name(const struct image *image, const ElfW(Phdr) * dynamic)
{
    static const char name[] = "\0__tsan_init"; /* and a NUL behind it */
    const ElfW(Dyn) *dyn = bytes(image, dynamic->p_offset, dynamic->p_filesz);
    uint64_t address = 0, size = 0;
    const void *strings;

    for (size_t i = 0; dyn && i < dynamic->p_filesz / sizeof(*dyn); i++) {
        if (dyn[i].d_tag == DT_STRTAB)
            address = dyn[i].d_un.d_ptr;
        else if (dyn[i].d_tag == DT_STRSZ)
            size = dyn[i].d_un.d_val;
    }
    return address && (strings = loaded(image, address, size)) &&
           memmem(strings, size, name, sizeof(name));
}

static bool look(struct image *image)
{
    const ElfW(Ehdr) *header = bytes(image, 0, sizeof(*header));

    if (!header || memcmp(header->e_ident, ELFMAG, SELFMAG) != 0 ||
        header->e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        header->e_phentsize != sizeof(ElfW(Phdr)))
        return false;
    image->n = header->e_phnum;
    image->segment = bytes(image, header->e_phoff, image->n * sizeof(ElfW(Phdr)));
    for (unsigned i = 0; image->segment && i < image->n; i++)
        if (image->segment[i].p_type == PT_DYNAMIC)
            return has_name(image, &image->segment[i]);
    return false;
}

bool run_thread_sanitized(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct image image = {.at = MAP_FAILED};
    bool found = false;
    struct stat st;

    if (fd < 0)
        return false;
    if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size > 0) {
        image.size = (size_t)st.st_size;
        image.at = mmap(NULL, image.size, PROT_READ, MAP_PRIVATE, fd, 0);
    }
    close(fd);
    if (image.at != MAP_FAILED) {
        found = look(&image);
        munmap((void *)(uintptr_t)image.at, image.size);
    }
    return found;
}
