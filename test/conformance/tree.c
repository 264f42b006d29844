/*
 * tree.c - what is in a directory, as JSON
 *
 * Raw: by system calls, past a library that is preloaded before libc. Else by libc: what a
 * program sees.
 */
#include "conform.h"

#include <dirent.h>
#include <dlfcn.h>
#include <sys/syscall.h>

#define SHOWN 96 /* bytes of a file from its begin, and from its end */

static long (*raw_call)(long number, ...);

void raw_setup(void)
{
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);

    raw_call = libc ? (long (*)(long, ...))dlsym(libc, "syscall") : NULL;
    if (!raw_call)
        exit(2);
}

struct names {
    char **name;
    size_t count;
};

static void names_add(struct names *names, const char *name)
{
    if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return;
    names->name = realloc(names->name, (names->count + 1) * sizeof *names->name);
    names->name[names->count++] = strdup(name);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static int names_read(struct names *names, const char *path, bool raw)
{
    memset(names, 0, sizeof *names);
    if (raw) {
        _Alignas(struct dirent64) char room[32768];
        int fd = (int)raw_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_DIRECTORY);
        long got;

        if (fd < 0)
            return -1;
        while ((got = raw_call(SYS_getdents64, fd, room, sizeof room)) > 0)
            for (long at = 0; at < got;) {
                struct dirent64 *entry = (struct dirent64 *)(room + at);

                names_add(names, entry->d_name);
                at += entry->d_reclen;
            }
        raw_call(SYS_close, fd);
    } else {
        DIR *dir = opendir(path);
        struct dirent *entry;

        if (!dir)
            return -1;
        while ((entry = readdir(dir)))
            names_add(names, entry->d_name);
        closedir(dir);
    }
    if (names->count)
        qsort(names->name, names->count, sizeof *names->name, by_name);
    return 0;
}

static void names_free(struct names *names)
{
    for (size_t i = 0; i < names->count; i++)
        free(names->name[i]);
    free(names->name);
}

static bool is_special(const struct stat *st)
{
    return !S_ISREG(st->st_mode) && !S_ISDIR(st->st_mode) && !S_ISLNK(st->st_mode);
}

static int look_at(const char *path, struct stat *st, bool raw)
{
    if (!raw)
        return lstat(path, st);
    return (int)raw_call(SYS_newfstatat, AT_FDCWD, path, st, AT_SYMLINK_NOFOLLOW);
}

static void print_data(FILE *out, const char *path, const struct stat *st, bool raw)
{
    char data[SHOWN];
    struct stat opened;
    /* O_NOATIME would need the owner; what atime becomes is nobody's promise. */
    int fd = raw ? (int)raw_call(SYS_openat, AT_FDCWD, path, O_RDONLY | O_NONBLOCK)
                 : open(path, O_RDONLY | O_NONBLOCK);
    ssize_t got;

    if (fd < 0) {
        fprintf(out, ",\"open\":\"%s\"", strerrorname_np(errno));
        return;
    }
    got = pread(fd, data, sizeof data, 0);
    fputs(",\"data\":", out);
    json_bytes(out, data, got > 0 ? (size_t)got : 0);
    if (st->st_size > (off_t)sizeof data) {
        got = pread(fd, data, sizeof data, st->st_size - (off_t)sizeof data);
        fputs(",\"end\":", out);
        json_bytes(out, data, got > 0 ? (size_t)got : 0);
    }
    /* What stat said from the entry must be what the file then is. */
    if (fstat(fd, &opened) != 0 || opened.st_mode != st->st_mode ||
        opened.st_size != st->st_size || opened.st_mtim.tv_sec != st->st_mtim.tv_sec ||
        opened.st_mtim.tv_nsec != st->st_mtim.tv_nsec)
        fprintf(out, ",\"opened\":\"%06o %lld %lld.%09ld\"", opened.st_mode,
                (long long)opened.st_size, (long long)opened.st_mtim.tv_sec,
                opened.st_mtim.tv_nsec);
    if (raw)
        raw_call(SYS_close, fd);
    else
        close(fd);
}

static void print_target(FILE *out, const char *base, const char *path, bool raw)
{
    char target[4096];
    ssize_t len = raw ? raw_call(SYS_readlinkat, AT_FDCWD, path, target, sizeof target)
                      : readlink(path, target, sizeof target);
    size_t prefix = strlen(base);

    if (len < 0) {
        fprintf(out, ",\"readlink\":\"%s\"", strerrorname_np(errno));
        return;
    }
    fputs(",\"target\":", out);
    if ((size_t)len >= prefix && memcmp(target, base, prefix) == 0) {
        target[prefix - 1] = '@';
        json_bytes(out, target + prefix - 1, (size_t)len - prefix + 1);
    } else {
        json_bytes(out, target, (size_t)len);
    }
}

static void print_names(FILE *out, const char *path, const struct tree_how *how)
{
    struct names names;
    const char *comma = "";

    if (names_read(&names, path, how->raw) != 0) {
        fprintf(out, ",\"opendir\":\"%s\"", strerrorname_np(errno));
        return;
    }
    fputs(",\"names\":[", out);
    for (size_t i = 0; i < names.count; i++) {
        char below[8192];
        struct stat st;

        snprintf(below, sizeof below, "%s/%s", path, names.name[i]);
        /* Special files exist on their node only. */
        if (how->exact && look_at(below, &st, how->raw) == 0 && is_special(&st))
            continue;
        fputs(comma, out);
        json_bytes(out, names.name[i], strlen(names.name[i]));
        comma = ",";
    }
    fputs("]", out);
    names_free(&names);
}

void tree_entry(FILE *out, const char *base, const char *path, const struct tree_how *how)
{
    struct stat st;
    const char *shown = path + strlen(base);

    fputs("{\"path\":", out);
    json_bytes(out, shown, strlen(shown));
    if (look_at(path, &st, how->raw) != 0) {
        fprintf(out, ",\"lstat\":\"%s\"}", strerrorname_np(errno));
        return;
    }
    fprintf(out, ",\"mode\":\"%06o\"", st.st_mode);
    if (!how->exact && !S_ISDIR(st.st_mode))
        fprintf(out, ",\"nlink\":%lu", (unsigned long)st.st_nlink);
    if (S_ISREG(st.st_mode))
        fprintf(out, ",\"size\":%lld", (long long)st.st_size);
    if (S_ISREG(st.st_mode) && (how->exact || st.st_mtim.tv_sec < 1500000000))
        fprintf(out, ",\"mtime\":\"%lld.%09ld\"", (long long)st.st_mtim.tv_sec,
                st.st_mtim.tv_nsec);
    if (S_ISREG(st.st_mode))
        print_data(out, path, &st, how->raw);
    else if (S_ISLNK(st.st_mode))
        print_target(out, base, path, how->raw);
    else if (S_ISDIR(st.st_mode))
        print_names(out, path, how);
    fputs("}", out);
}

void tree_print(FILE *out, const char *base, const char *path, const struct tree_how *how)
{
    struct names names;

    if (names_read(&names, path, how->raw) != 0)
        return;
    for (size_t i = 0; i < names.count; i++) {
        char below[8192];
        struct stat st;

        /* The library's own, in the directory that is managed. */
        if (strcmp(names.name[i], ".dyad") == 0)
            continue;
        snprintf(below, sizeof below, "%s/%s", path, names.name[i]);
        if (look_at(below, &st, how->raw) == 0) {
            if (how->exact && is_special(&st))
                continue;
            tree_entry(out, base, below, how);
            fputs(how->separator, out);
            if (S_ISDIR(st.st_mode))
                tree_print(out, base, below, how);
        }
    }
    names_free(&names);
}
