/*
 * door_real.c - libc's socket calls, past those of door_calls.c
 */
#include "net/door_real.h"

#include <dlfcn.h>
#include <pthread.h>

static struct net_door_real real;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void find(void)
{
    *(void **)&real.listen = dlsym(RTLD_NEXT, "listen");
    *(void **)&real.accept = dlsym(RTLD_NEXT, "accept");
    *(void **)&real.connect = dlsym(RTLD_NEXT, "connect");
    *(void **)&real.getsockname = dlsym(RTLD_NEXT, "getsockname");
    *(void **)&real.send = dlsym(RTLD_NEXT, "send");
    *(void **)&real.sendmsg = dlsym(RTLD_NEXT, "sendmsg");
    *(void **)&real.recv = dlsym(RTLD_NEXT, "recv");
    *(void **)&real.close = dlsym(RTLD_NEXT, "close");
}

const struct net_door_real *net_door_real(void)
{
    pthread_once(&once, find);
    return &real;
}
