/*
 * door_calls.c - what libucs finds in place of libc's socket calls
 *
 * These are visible: libdyad_member.so is opened with RTLD_DEEPBIND or in a name space of its own, so the libraries that it
 * loads find its functions first (as its getenv: boot/environ.c). All but UCX's calls go on to libc: who calls is told by
 * the return address, for a descriptor's number alone may be of another table (boot/fdtable.h).
 *
 * What could go wrong: UCX finds libc's functions (a sanitizer's build; a program that had loaded UCX before us, where it
 * cannot be had apart): net_door_is_passed() tells.
 */
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "net/door.h"
#include "net/door_real.h"
#include "util/loader.h"

static struct {
    const char *from, *to;
} ucx[8];
static size_t nucx;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static int add_ucx(struct dl_phdr_info *info, size_t size, void *arg)
{
    const char *name = strrchr(info->dlpi_name, '/');

    (void)size;
    (void)arg;
    if (!name || (strncmp(name, "/libucs.so", 10) && strncmp(name, "/libuct.so", 10)))
        return 0;
    for (unsigned i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
        if (segment->p_type != PT_LOAD || !(segment->p_flags & PF_X) ||
            nucx == sizeof(ucx) / sizeof(ucx[0]))
            continue;
        ucx[nucx].from = (const char *)(info->dlpi_addr + segment->p_vaddr);
        ucx[nucx].to = ucx[nucx].from + segment->p_memsz;
        nucx++;
    }
    return 0;
}

static void find(void)
{
    dl_iterate_phdr(add_ucx, NULL);
}

/* Before there are threads: the loader's lock may be another's, for as long as that likes, when it is needed later (a program
 * that waits in a constructor for what a member is to bring). libucs's constructor calls us before this one. */
__attribute__((constructor)) static void find_all(void)
{
    net_door_real();
    pthread_once(&once, find);
}

static inline bool is_ucx(const void *caller)
{
    const char *at = caller;

    pthread_once(&once, find);
    for (size_t i = 0; i < nucx; i++)
        if (at >= ucx[i].from && at < ucx[i].to)
            return true;
    return false;
}

#define CALLER __builtin_return_address(0)

/* Under their names, whose declarations in libc's headers have types of their own. */
#define VISIBLE_AS(name) __asm__(name) __attribute__((visibility("default")))

int calls_listen(int fd, int backlog) VISIBLE_AS("listen");
int calls_accept(int fd, struct sockaddr *addr, socklen_t *len) VISIBLE_AS("accept");
int calls_connect(int fd, const struct sockaddr *addr, socklen_t len) VISIBLE_AS("connect");
int calls_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
    VISIBLE_AS("getsockname");
ssize_t calls_send(int fd, const void *data, size_t len, int flags) VISIBLE_AS("send");
ssize_t calls_sendmsg(int fd, const struct msghdr *msg, int flags) VISIBLE_AS("sendmsg");
ssize_t calls_recv(int fd, void *data, size_t len, int flags) VISIBLE_AS("recv");
int calls_close(int fd) VISIBLE_AS("close");

int calls_listen(int fd, int backlog)
{
    return is_ucx(CALLER) ? net_door_listen(fd, backlog)
                          : net_door_real()->listen(fd, backlog);
}

int calls_accept(int fd, struct sockaddr *addr, socklen_t *len)
{
    return is_ucx(CALLER) ? net_door_accept(fd, addr, len)
                          : net_door_real()->accept(fd, addr, len);
}

int calls_connect(int fd, const struct sockaddr *addr, socklen_t len)
{
    return is_ucx(CALLER) ? net_door_connect(fd, addr, len)
                          : net_door_real()->connect(fd, addr, len);
}

int calls_getsockname(int fd, struct sockaddr *addr, socklen_t *len)
{
    return is_ucx(CALLER) ? net_door_getsockname(fd, addr, len)
                          : net_door_real()->getsockname(fd, addr, len);
}

ssize_t calls_send(int fd, const void *data, size_t len, int flags)
{
    return is_ucx(CALLER) ? net_door_send(fd, data, len, flags)
                          : net_door_real()->send(fd, data, len, flags);
}

ssize_t calls_sendmsg(int fd, const struct msghdr *msg, int flags)
{
    return is_ucx(CALLER) ? net_door_sendmsg(fd, msg, flags)
                          : net_door_real()->sendmsg(fd, msg, flags);
}

ssize_t calls_recv(int fd, void *data, size_t len, int flags)
{
    return is_ucx(CALLER) ? net_door_recv(fd, data, len, flags)
                          : net_door_real()->recv(fd, data, len, flags);
}

int calls_close(int fd)
{
    return is_ucx(CALLER) ? net_door_close(fd) : net_door_real()->close(fd);
}
