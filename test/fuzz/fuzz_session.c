/*
 * fuzz_session.c - a session directory in which anything may lie
 *
 * The input is its entries, each a kind, a name and a text: 'l' a link to the text, 'f' a file of it, 'd' a directory. A
 * member opens the directory, reads all that others have there, takes a slot, joins, and leaves.
 */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "boot/session_dir.h"
#include "boot/session_dir_impl.h"
#include "fuzz.h"
#include "net/peer.h"
#include "util/fd_close.h"
#include "util/log.h"

#define ENTRIES 24

static int make_directory(void)
{
    char path[128];
    int fd;

    util_log_setup(UTIL_LOG_ALWAYS, NULL, "fuzz");
    snprintf(path, sizeof(path), "%s/dyad", fuzz_directory());
    mkdir(path, 0700);
    FUZZ_CHECK((fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) >= 0);
    return fd;
}

static void empty_directory(int fd)
{
    DIR *dir = fdopendir(dup(fd));
    struct dirent *entry;

    FUZZ_CHECK(dir);
    rewinddir(dir);
    while ((entry = readdir(dir)))
        if (strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0 &&
            unlinkat(fd, entry->d_name, 0) < 0)
            unlinkat(fd, entry->d_name, AT_REMOVEDIR);
    closedir(dir);
}

static void put_entry(int dir, char kind, const char *name, const char *text)
{
    int fd;

    if (strchr(name, '/') || !name[0])
        return;
    if (kind == 'd') {
        mkdirat(dir, name, 0700);
    } else if (kind == 'f') {
        fd = openat(dir, name, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
        if (fd >= 0 && write(fd, text, strlen(text)) < 0)
            abort();
        util_fd_close(fd);
    } else if (text[0]) {
        (void)!symlinkat(text, dir, name);
    }
}

static void read_all(struct session_dir *d)
{
    const struct session_dir_slot *slots = session_dir_slots(d);
    const struct session_dir_gone *gone;
    char blob[NET_PEER_BLOB_MAX];
    static struct net_peer peer;
    size_t n;

    for (uint32_t i = 0; i < session_dir_ranks(d); i++) {
        FUZZ_CHECK(slots[i].live == 0 || slots[i].live == slots[i].link);
        FUZZ_CHECK(slots[i].gone <= slots[i].link && slots[i].link <= UINT32_MAX / 2);
        int len = slots[i].live ? session_dir_read(d, i, blob, sizeof(blob)) : -1;
        if (len >= 0)
            net_peer_decode(&peer, blob, (size_t)len);
        if (slots[i].live)
            session_dir_is_dead(d, i);
    }
    gone = session_dir_gone(d, &n);
    FUZZ_CHECK(n <= SESSION_DIR_GONE_MAX);
    for (size_t i = 0; i < n; i++) {
        FUZZ_CHECK(gone[i].slot < session_dir_ranks(d));
        session_dir_read_gone(d, &gone[i], blob, sizeof(blob));
    }
}

/* Our own entry is what is read of our slot. */
static void join(struct session_dir *d)
{
    const struct session_dir_slot *slots;
    uint32_t slot, incarnation;
    char blob[64];

    if (session_dir_take_slot(d, &slot, &incarnation) < 0)
        return;
    FUZZ_CHECK(slot < session_dir_ranks(d) && incarnation > 0);
    slots = session_dir_slots(d);
    FUZZ_CHECK(slots[slot].link == incarnation);
    if (session_dir_commit(d, "entry", 5) == 0) {
        FUZZ_CHECK(session_dir_read(d, slot, blob, sizeof(blob)) == 5 &&
                   memcmp(blob, "entry", 5) == 0);
        session_dir_keep(d);
        session_dir_tidy(d);
        if (session_dir_list(d) == 0)
            FUZZ_CHECK(session_dir_slots(d)[slot].live == incarnation);
    }
    session_dir_leave(d);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const struct boot_identity identity = {
        .launched = true, .nspace = "fuzz", .node = "n1"};
    struct session_dir *d = session_dir_create(fuzz_directory(), NULL, &identity);
    struct fuzz_input in = {data, len};
    char name[200], text[300];
    int fd = make_directory();

    FUZZ_CHECK(d);
    for (int i = 0; i < ENTRIES && in.left > 0; i++) {
        char kind = (char)fuzz_u8(&in);
        fuzz_string(&in, name, sizeof(name));
        put_entry(fd, kind, name, fuzz_string(&in, text, sizeof(text)));
    }
    if (session_dir_open(d, 4) == 0 && session_dir_ranks(d) <= 256 &&
        session_dir_list(d) == 0) {
        fuzz_taken++;
        read_all(d);
        join(d);
    }
    session_dir_destroy(d);
    empty_directory(fd);
    close(fd);
    return 0;
}

/* One entry; its length. */
static size_t put(char *to, char kind, const char *name, const char *text)
{
    to[0] = kind;
    strcpy(to + 1, name);
    strcpy(to + 2 + strlen(name), text);
    return 3 + strlen(name) + strlen(text);
}

#define NODE     0x1122334455667788u
#define IDENTITY 0x99aabbccddeeff00u

void fuzz_seeds(void)
{
    struct name live = {LIVE, 1, 3, NODE, IDENTITY}, gone = {GONE, 2, 1, NODE, IDENTITY},
                slot = {SLOT, 1, 3, 0, 0};
    char input[2048], name[NAME_CAP];
    size_t n = 0;

    fuzz_seed("empty", "", 0);
    n += put(input + n, 'l', "id", "00112233445566ff");
    n += put(input + n, 'l', "ranks", "8");
    fuzz_seed("begun", input, n);
    session_name_print(name, &slot);
    n += put(input + n, 'l', name,
             "99aabbccddeeff00.1122334455667788.0000000000000001.0000000000000002.00000003."
             "launch/3");
    session_name_print(name, &live);
    n += put(input + n, 'f', name, "no blob");
    session_name_print(name, &gone);
    n += put(input + n, 'f', name, "");
    fuzz_seed("members", input, n);
    n += put(input + n, 'd', "live.00003.1.0000000000000001.0000000000000001", "");
    n +=
        put(input + n, 'l', "live.00000.1.0000000000000001.0000000000000001", "/etc/hosts");
    n += put(input + n, 'l', "slot.00003.2147483647", "x");
    n += put(input + n, 'f', "new.00001.4", "left");
    fuzz_seed("hostile", input, n);
    n = put(input, 'l', "ranks", "65537");
    fuzz_seed("ranks", input, n);
    n = put(input, 'f', "id", "");
    fuzz_seed("id", input, n);
}
