/*
 * fake_member.c - one thread, one connection at a time
 */
#include "fake_member.h"

#include <endian.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

struct fake_member {
    int fd;
    pthread_t thread;
    fake_answer_fn answer;
};

void fake_member_raw(int fd, const void *data, size_t len)
{
    const char *p = data;

    while (len > 0) {
        ssize_t n = send(fd, p, len, MSG_NOSIGNAL);
        if (n <= 0)
            return; /* the client has gone: it may */
        p += n;
        len -= (size_t)n;
    }
}

static void send_message(int fd, const struct net_msg *msg)
{
    char *frame = malloc(4 + NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX);
    int n = net_msg_encode(msg, frame + 4, NET_MSG_HEADER_MAX + NET_MSG_BLOB_MAX);

    if (n < 0)
        abort();
    uint32_t len = htole32((uint32_t)n);
    memcpy(frame, &len, 4);
    fake_member_raw(fd, frame, (size_t)n + 4);
    free(frame);
}

void fake_member_page(int fd, uint32_t rank, const char *json, int more)
{
    send_message(fd, &(struct net_msg){.type = NET_MSG_DUMP_REPLY,
                                       .flags = more ? NET_DUMP_MORE : 0,
                                       .rank = rank,
                                       .blob = json,
                                       .blob_len = strlen(json)});
}

void fake_member_error(int fd, uint32_t rank, int status)
{
    send_message(
        fd, &(struct net_msg){.type = NET_MSG_DUMP_REPLY, .status = status, .rank = rank});
}

void fake_member_done(int fd, int status)
{
    send_message(fd, &(struct net_msg){.type = NET_MSG_DONE, .status = status});
}

static bool receive_all(int fd, void *buf, size_t len)
{
    return recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len;
}

static void *serve(void *arg)
{
    struct fake_member *member = arg;
    char *buf = malloc(NET_MSG_HEADER_MAX);
    struct net_msg request;
    uint32_t len;
    int fd;

    while ((fd = accept(member->fd, NULL, NULL)) >= 0) {
        /* a connection without a request is one that looks who we are */
        if (receive_all(fd, &len, 4) && (len = le32toh(len)) <= NET_MSG_HEADER_MAX &&
            receive_all(fd, buf, len) && net_msg_decode(&request, buf, len) == 0)
            member->answer(fd, &request);
        close(fd);
    }
    free(buf);
    return NULL;
}

struct fake_member *fake_member_start(const char *session, uint32_t rank,
                                      fake_answer_fn answer)
{
    struct fake_member *member = calloc(1, sizeof(*member));
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int n = snprintf(address.sun_path + 1, sizeof(address.sun_path) - 1, "dyad/%u/%s/%u",
                     (unsigned)geteuid(), session, (unsigned)rank);

    member->answer = answer;
    member->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (member->fd < 0 ||
        bind(member->fd, (struct sockaddr *)&address,
             (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n)) < 0 ||
        listen(member->fd, 16) < 0 ||
        pthread_create(&member->thread, NULL, serve, member) != 0)
        abort();
    return member;
}

void fake_member_stop(struct fake_member *member)
{
    shutdown(member->fd, SHUT_RDWR); /* accept() returns */
    pthread_join(member->thread, NULL);
    close(member->fd);
    free(member);
}
