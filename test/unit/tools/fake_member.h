/*
 * fake_member.h - a member's socket, and a thread that answers on it as a test says
 */
#ifndef DYAD_TEST_FAKE_MEMBER_H
#define DYAD_TEST_FAKE_MEMBER_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "net/msg.h"

/* For the answering thread, where cmocka's assertions do not work. */
#define FAKE_CHECK(condition)                                                       \
    do {                                                                            \
        if (!(condition)) {                                                         \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                                \
        }                                                                           \
    } while (0)

/* One connection; `request` is what was asked, decoded. Send with the functions below; the
 * connection is closed on return. */
typedef void (*fake_answer_fn)(int fd, const struct net_msg *request);

struct fake_member;

/* Listen as rank `rank` of `session`, as this user. Ends the test program on failure. */
struct fake_member *fake_member_start(const char *session, uint32_t rank,
                                      fake_answer_fn answer);
void fake_member_stop(struct fake_member *member);

/* A page of a rank's shard: JSON text. */
void fake_member_page(int fd, uint32_t rank, const char *json, int more);
/* A rank that could not be asked. */
void fake_member_error(int fd, uint32_t rank, int status);
void fake_member_done(int fd, int status);
/* Bytes as they are. */
void fake_member_raw(int fd, const void *data, size_t len);

#endif
