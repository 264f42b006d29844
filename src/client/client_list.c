/*
 * client_list.c - the names below a directory, from the member
 *
 * They are gathered before the first is given to the caller: what the caller does with one
 * may take long, may ask the member itself, and may not return (longjmp, cancellation).
 * Should the member go away in the midst of its answer, the next one begins from the start.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "client/client.h"
#include "client/client_impl.h"

struct names {
    unsigned char *bytes; /* as in a page (net/msg.h) */
    size_t len, room;
};

static int names_add(void *arg, const struct net_msg *page)
{
    struct names *names = arg;

    if (!page) {
        names->len = 0;
        return 0;
    }
    if (names->room - names->len < page->blob_len) {
        size_t room = 2 * names->room + page->blob_len;
        unsigned char *bytes = realloc(names->bytes, room);
        if (!bytes)
            return -1;
        names->bytes = bytes;
        names->room = room;
    }
    if (page->blob_len > 0)
        memcpy(names->bytes + names->len, page->blob, page->blob_len);
    names->len += page->blob_len;
    return 0;
}

static int names_each(const struct names *names,
                      int (*fn)(void *arg, const char *name, unsigned char type), void *arg)
{
    const char *name;
    unsigned char type;
    size_t at = 0;
    int rc = 0;

    while (rc == 0 && (name = net_list_next(names->bytes, names->len, &at, &type)))
        rc = fn(arg, name, type);
    return rc;
}

int client_list(struct client *client, const char *upath,
                int (*fn)(void *arg, const char *name, unsigned char type), void *arg)
{
    const size_t size = NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX;
    struct net_msg request = {.type = NET_MSG_GUEST_LIST, .entry = {.upath = upath}};
    struct names names = {0};
    struct net_msg reply;
    void *buf = NULL;
    int saved = errno;
    int rc = -1;

    if (!client->config.listing) {
        errno = ENOTSUP;
        return -1;
    }
    if (!(buf = malloc(size)))
        return -1;
    pthread_cleanup_push(free, buf);
    rc = client_request_pages(client, &request, &reply, buf, size, names_add, &names);
    pthread_cleanup_pop(1);
    if (rc == 0) {
        errno = saved;
        pthread_cleanup_push(free, names.bytes);
        rc = names_each(&names, fn, arg);
        pthread_cleanup_pop(0);
    }
    saved = errno;
    free(names.bytes);
    errno = saved;
    return rc;
}
