/*
 * test_gather.c - a rank whose answer has no end
 *
 * gather.c alone: the ranks, and the loop that posts come back by, are played by the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <errno.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/gather.h"
#include "engine/core/member.h"
#include "engine/core/module.h"
#include "fake_clock.h"

#define RANKS  4u
#define BROKEN 2u

extern const struct member_module gathers_module;
static const struct member_module *const modules[] = {&gathers_module, NULL};

static struct member member_made;
static struct member *const member = &member_made;
static struct engine_config config = {.peer_timeout = 30};
static net_loop_fn posted;
static void *posted_arg;
static uint64_t asked[RANKS]; /* the id of what waits for an answer; 0: nothing */
static unsigned pages[RANKS];
static int error_of[RANKS];
static unsigned ndone;

void net_loop_post(struct net_loop *loop, struct net_post *post, net_loop_fn fn, void *arg)
{
    (void)loop;
    (void)post;
    posted = fn;
    posted_arg = arg;
}

int member_send(struct member *m, uint32_t rank, struct net_msg *msg)
{
    (void)m;
    asked[rank] = msg->id;
    return 0;
}

const char *member_describe(struct member *m, uint32_t rank)
{
    (void)m;
    (void)rank;
    return "a rank";
}

static void ask(void *arg, const struct gather_at *at, struct net_msg *msg)
{
    (void)arg;
    (void)at;
    msg->type = NET_MSG_LIST;
}

static enum gather_step page(void *arg, struct gather_at *at, const struct net_msg *msg)
{
    (void)arg;
    at->after++;
    pages[at->rank]++;
    return msg->flags & NET_LIST_MORE ? GATHER_MORE : GATHER_LAST;
}

static void failed(void *arg, uint32_t rank, int error)
{
    (void)arg;
    error_of[rank] = error;
}

static bool done(void *arg)
{
    (void)arg;
    ndone++;
    return false;
}

static const struct gather_ops ops = {NULL, ask, page, failed, done};

static void answer(uint32_t rank, uint8_t flags)
{
    struct net_msg msg = {
        .type = NET_MSG_LIST_REPLY, .source = rank, .id = asked[rank], .flags = flags};
    void *payload = NULL;

    asked[rank] = 0;
    assert_true(modules_receive(member, &msg, &payload, 0));
}

static void test_pages_without_end(void **state)
{
    (void)state;
    fake_clock_begin(1000);
    member->config = &config;
    member->modules = modules;
    member->next_id = 1;
    assert_int_equal(modules_create(member, modules), 0);
    assert_non_null(gather_start(member, 0, RANKS, RANKS, &ops, NULL));
    posted(posted_arg);

    /* A million names, in pages of 64 KiB, are far below the bound. */
    for (unsigned i = 0; i < 1000; i++)
        answer(1, NET_LIST_MORE);
    answer(1, 0);
    answer(0, 0);
    answer(3, 0);
    assert_int_equal(ndone, 0);
    while (asked[BROKEN])
        answer(BROKEN, NET_LIST_MORE);
    assert_int_equal(ndone, 1);
    assert_int_equal(pages[BROKEN], GATHER_PAGES_MAX);
    assert_int_equal(error_of[BROKEN], EPROTO);
    assert_int_equal(pages[1], 1001);
    assert_int_equal(error_of[0] | error_of[1] | error_of[3], 0);

    modules_destroy(member);
    modules_free(member);
    fake_clock_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pages_without_end)};
    return cmocka_run_group_tests_name("gather", tests, NULL, NULL);
}
