/*
 * library.c - what a library or program needs of others
 *
 * The loader's own opens pass by the wrapper. So what it will look for is brought before it
 * begins: what is searched along run paths and LD_LIBRARY_PATH, in those of their
 * directories that are managed, if it is published there. One that the loader finds in a
 * directory before, or has already, may come without need. Not followed: the DT_RPATH of an
 * object for those that are loaded on behalf of others, $LIB, $PLATFORM.
 */
#include "wrapper/library.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "wrapper/core.h"
#include "wrapper/open.h"
#include "wrapper/path_find.h"
#include "wrapper/resolve.h"

#define OBJECTS_MAX  128 /* that one begins to bring */
#define NEEDED_MAX   64  /* by one object */
#define SEGMENTS_MAX 32
#define ENTRIES      64 /* of the dynamic section, read at a time */

struct work {
    const struct engine_ops *ops;
    size_t n; /* objects that are here and were, or are to be, looked at */
    char object[OBJECTS_MAX][PATH_MAX];
    char name[PATH_MAX], full[PATH_MAX], rpath[PATH_MAX], runpath[PATH_MAX];
    struct wrapper_path where;
};

/* On pages of its own: threads may have small stacks, and the child of vfork allocates
 * nothing in its parent. */
static struct work *work_create(const struct engine_ops *ops)
{
    struct work *work =
        (struct work *)syscall(SYS_mmap, NULL, sizeof(*work), PROT_READ | PROT_WRITE,
                               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (work == MAP_FAILED)
        return NULL;
    work->ops = ops;
    return work;
}

static void work_destroy(struct work *work)
{
    syscall(SYS_munmap, work, sizeof(*work));
}

/* --- the search --- */

/* work->full is below a managed directory, and it is here, or comes. */
static bool bring(struct work *work)
{
    if (!wrapper_path_find_as(AT_FDCWD, work->full, WRAPPER_PATH_FOLLOW_ALL,
                              &work->where) ||
        !wrapper_open_bring(work->ops, &work->where))
        return false;
    for (size_t i = 0; i < work->n; i++)
        if (strcmp(work->object[i], work->full) == 0)
            return true;
    if (work->n < OBJECTS_MAX)
        strcpy(work->object[work->n++], work->full);
    return true;
}

/* work->full = the directory of `length` bytes / name. False: not to be had. */
static bool join(struct work *work, const char *dir, size_t length, const char *origin,
                 const char *name)
{
    static const char *const tokens[] = {"$ORIGIN", "${ORIGIN}"};
    const char *slash = origin ? strrchr(origin, '/') : NULL;
    size_t at = 0;

    for (const char *p = dir; p < dir + length;) {
        size_t token = 0;
        for (size_t i = 0; i < 2 && *p == '$'; i++)
            if (strncmp(p, tokens[i], strlen(tokens[i])) == 0)
                token = strlen(tokens[i]);
        if (*p == '$' && (!token || !origin))
            return false;
        const char *text = !token ? p : slash ? origin : ".";
        size_t n = !token || !slash ? 1 : (size_t)(slash - origin);
        if (at + n + strlen(name) + 2 > sizeof(work->full))
            return false;
        memcpy(work->full + at, text, n);
        at += n;
        p += token ? token : 1;
    }
    work->full[at++] = '/';
    strcpy(work->full + at, name);
    return true;
}

static bool search_list(struct work *work, const char *list, const char *origin,
                        const char *name)
{
    for (; list && *list; list += *list != '\0') {
        size_t length = strcspn(list, ":;");
        if (length > 0 && strlen(name) < PATH_MAX &&
            join(work, list, length, origin, name) &&
            !wrapper_path_elsewhere(AT_FDCWD, work->full, WRAPPER_PATH_FOLLOW_ALL) &&
            bring(work))
            return true;
        list += length;
    }
    return false;
}

/* As the loader does it. */
static void search(struct work *work, const char *name, const struct wrapper_search *s)
{
    if (strchr(name, '/')) {
        if (strlen(name) < sizeof(work->full)) {
            strcpy(work->full, name);
            bring(work);
        }
        return;
    }
    if ((!s->runpath && search_list(work, s->rpath, s->origin, name)) ||
        search_list(work, s->library_path, NULL, name))
        return;
    search_list(work, s->runpath, s->origin, name);
}

/* --- what a file needs --- */

struct file {
    int fd;
    ElfW(Phdr) segment[SEGMENTS_MAX];
    unsigned nsegments;
    uint64_t strings, rpath, runpath; /* an address; offsets of strings, 0: none */
    uint64_t needed[NEEDED_MAX];
    unsigned nneeded;
};

static bool read_at(int fd, void *buf, size_t size, uint64_t offset)
{
    return pread(fd, buf, size, (off_t)offset) == (ssize_t)size;
}

static void take_entry(struct file *file, const ElfW(Dyn) * entry)
{
    switch (entry->d_tag) {
    case DT_STRTAB:
        file->strings = entry->d_un.d_ptr;
        break;
    case DT_RPATH:
        file->rpath = entry->d_un.d_val;
        break;
    case DT_RUNPATH:
        file->runpath = entry->d_un.d_val;
        break;
    case DT_NEEDED:
        if (file->nneeded < NEEDED_MAX)
            file->needed[file->nneeded++] = entry->d_un.d_val;
    }
}

static void read_dynamic(struct file *file, const ElfW(Phdr) * dynamic)
{
    ElfW(Dyn) entry[ENTRIES];
    uint64_t at = dynamic->p_offset, end = at + dynamic->p_filesz;

    while (at < end) {
        uint64_t n = (end - at) / sizeof(*entry);
        n = n < ENTRIES ? n : ENTRIES;
        if (n == 0 || !read_at(file->fd, entry, n * sizeof(*entry), at))
            return;
        for (uint64_t i = 0; i < n; i++) {
            if (entry[i].d_tag == DT_NULL)
                return;
            take_entry(file, &entry[i]);
        }
        at += n * sizeof(*entry);
    }
}

/* False: it is no ELF file for this machine, or needs nothing. */
static bool file_read(struct file *file, int fd)
{
    ElfW(Ehdr) header;

    memset(file, 0, sizeof(*file));
    file->fd = fd;
    if (!read_at(fd, &header, sizeof(header), 0) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 ||
        header.e_ident[EI_CLASS] != (sizeof(void *) == 8 ? ELFCLASS64 : ELFCLASS32) ||
        header.e_phentsize != sizeof(*file->segment))
        return false;
    file->nsegments = header.e_phnum < SEGMENTS_MAX ? header.e_phnum : SEGMENTS_MAX;
    if (!read_at(fd, file->segment, file->nsegments * sizeof(*file->segment),
                 header.e_phoff))
        return false;
    for (unsigned i = 0; i < file->nsegments; i++)
        if (file->segment[i].p_type == PT_DYNAMIC)
            read_dynamic(file, &file->segment[i]);
    for (unsigned i = 0; i < file->nsegments; i++) {
        const ElfW(Phdr) *s = &file->segment[i];
        if (s->p_type == PT_LOAD && file->strings - s->p_vaddr < s->p_filesz) {
            file->strings = s->p_offset + (file->strings - s->p_vaddr);
            return file->nneeded > 0;
        }
    }
    return false;
}

/* The string at that offset of the string table: text, or NULL. */
static const char *file_string(const struct file *file, uint64_t offset,
                               char text[PATH_MAX])
{
    ssize_t n =
        offset ? pread(file->fd, text, PATH_MAX, (off_t)(file->strings + offset)) : 0;

    return n > 0 && memchr(text, '\0', (size_t)n) ? text : NULL;
}

static void look_at(struct work *work, int fd, const char *path, const char *library_path)
{
    struct file file;

    if (!file_read(&file, fd))
        return;
    struct wrapper_search s = {.origin = path,
                               .rpath = file_string(&file, file.rpath, work->rpath),
                               .library_path = library_path,
                               .runpath = file_string(&file, file.runpath, work->runpath)};
    for (unsigned i = 0; i < file.nneeded; i++)
        if (file_string(&file, file.needed[i], work->name))
            search(work, work->name, &s);
}

/* All that has been brought, and what it makes come. */
static void finish(struct work *work, const char *library_path)
{
    for (size_t i = 0; i < work->n; i++) {
        int fd = (int)syscall(SYS_openat, AT_FDCWD, work->object[i], O_RDONLY | O_CLOEXEC);
        if (fd >= 0) {
            look_at(work, fd, work->object[i], library_path);
            syscall(SYS_close, fd);
        }
    }
}

void wrapper_library_needed(const struct engine_ops *ops, int fd, const char *path,
                            const char *search)
{
    char magic[SELFMAG];
    struct work *work;

    if (!read_at(fd, magic, sizeof(magic), 0) || memcmp(magic, ELFMAG, SELFMAG) != 0 ||
        !(work = work_create(ops)))
        return;
    look_at(work, fd, path, search);
    finish(work, search);
    work_destroy(work);
}

void wrapper_library_bring(const struct engine_ops *ops, const char *name,
                           const struct wrapper_search *s)
{
    struct work *work = work_create(ops);

    if (!work)
        return;
    search(work, name, s);
    finish(work, s->library_path);
    work_destroy(work);
}

void wrapper_library_path(const char *search)
{
    struct wrapper_path where;
    char dir[PATH_MAX];
    int saved = errno;

    for (; search && *search; search += *search != '\0') {
        size_t length = strcspn(search, ":;");
        if (length > 0 && length < sizeof(dir)) {
            memcpy(dir, search, length);
            dir[length] = '\0';
            if (!wrapper_path_elsewhere(AT_FDCWD, dir, WRAPPER_PATH_DIR))
                wrapper_bring_dir(AT_FDCWD, dir, &where);
        }
        search += length;
    }
    errno = saved;
}
