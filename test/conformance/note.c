/*
 * note.c - the notes of a case, in a small file that all its processes map
 *
 * A process adds a note by claiming its room with one atomic addition, so threads and
 * children may note at once; a case that wants a stable order waits for them.
 */
#include "conform.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>

#define ROOM 65536

struct notes {
    _Atomic unsigned len;
    _Atomic pid_t main; /* the case's first process */
    char text[ROOM - 2 * sizeof(unsigned)];
};

static struct notes *notes;
static char base[4096];

void note_open(const char *file)
{
    int fd = open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600);

    if (fd < 0 || ftruncate(fd, ROOM) != 0) {
        perror(file);
        exit(2);
    }
    notes = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (notes == MAP_FAILED) {
        perror("mmap");
        exit(2);
    }
}

void note_reset(void)
{
    memset(notes->text, 0, sizeof notes->text);
    notes->len = 0;
    notes->main = 0;
}

void note_main(void)
{
    notes->main = getpid();
}

void note_base(const char *prefix)
{
    snprintf(base, sizeof base, "%s", prefix);
}

static void print_of(FILE *out, char who)
{
    for (const char *line = notes->text, *end; *line; line = end) {
        end = line + strcspn(line, "\n");
        if (*line == who)
            fprintf(out, ",%.*s", (int)(end - line - 1), line + 1);
        end += *end == '\n';
    }
}

/* Two processes that run at once note in any order: the first one's notes come first. */
void note_print(FILE *out)
{
    print_of(out, 'm');
    print_of(out, 'o');
}

static void add(const char *text, size_t len)
{
    unsigned at = atomic_fetch_add(&notes->len, (unsigned)len);

    if (at + len < sizeof notes->text)
        memcpy(notes->text + at, text, len);
}

/* One byte of a JSON string. */
static size_t escape(char *to, unsigned char c)
{
    if (c == '"' || c == '\\')
        return (size_t)sprintf(to, "\\%c", c);
    if (c < ' ' || c > '~')
        return (size_t)sprintf(to, "\\u%04x", c);
    *to = (char)c;
    return 1;
}

void json_bytes(FILE *out, const void *data, size_t len)
{
    const unsigned char *at = data;
    char one[8];

    putc('"', out);
    for (size_t i = 0; i < len; i++)
        fwrite(one, 1, escape(one, at[i]), out);
    putc('"', out);
}

static void add_note(const char *what, const char *value, size_t len, bool quoted)
{
    char line[4096], *to = line, *end = line + sizeof line - 16;
    size_t prefix = strlen(base);

    to += sprintf(to, "%c[\"", getpid() == notes->main ? 'm' : 'o');
    for (; *what && to < end; what++)
        to += escape(to, (unsigned char)*what);
    to += sprintf(to, quoted ? "\",\"" : "\",");
    for (size_t i = 0; i < len && to < end; i++) {
        if (quoted && prefix > 1 && len - i >= prefix &&
            memcmp(value + i, base, prefix) == 0) {
            *to++ = '@';
            i += prefix - 1;
        } else if (quoted) {
            to += escape(to, (unsigned char)value[i]);
        } else {
            *to++ = value[i];
        }
    }
    to += sprintf(to, quoted ? "\"]\n" : "]\n");
    add(line, (size_t)(to - line));
}

long note_int(const char *what, long value, int err)
{
    char text[96];
    const char *name = strerrorname_np(err);

    /* A success that leaves errno alone shows the value only. */
    if (value != -1 && err == UNTOUCHED)
        snprintf(text, sizeof text, "%ld", value);
    else if (value != -1 && err == 0)
        snprintf(text, sizeof text, "%ld,\"errno 0\"", value);
    else
        snprintf(text, sizeof text, "%ld,\"%s\"", value, name ? name : "errno untouched");
    add_note(what, text, strlen(text), false);
    errno = err;
    return value;
}

void note_bytes(const char *what, const void *data, size_t len)
{
    add_note(what, data, len, true);
}

void note_str(const char *what, const char *value)
{
    note_bytes(what, value ? value : "(null)", strlen(value ? value : "(null)"));
}

void note_stat(const char *what, const struct stat *st)
{
    char text[256];
    int len;

    /* The size and link count of a directory are the file system's affair. */
    if (S_ISDIR(st->st_mode))
        len = snprintf(text, sizeof text, "%06o", st->st_mode);
    else
        len = snprintf(text, sizeof text, "%06o nlink %lu size %lld uid %d gid %d",
                       st->st_mode, (unsigned long)st->st_nlink, (long long)st->st_size,
                       st->st_uid == geteuid() ? 0 : (int)st->st_uid,
                       st->st_gid == getegid() ? 0 : (int)st->st_gid);
    if (st->st_mtim.tv_sec < 1500000000)
        snprintf(text + len, sizeof text - (size_t)len, " mtime %lld.%09ld",
                 (long long)st->st_mtim.tv_sec, st->st_mtim.tv_nsec);
    note_str(what, text);
}
