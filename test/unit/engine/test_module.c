/*
 * test_module.c - a message finds the modules that take its type, in their order, and the
 * state of a module is its own, of one member, and zero when it was destroyed
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/member.h"

struct serve {
    unsigned pongs, destroyed;
};

struct lease {
    unsigned pongs, pings;
};

static bool takes; /* the first of two */

static bool first_pong(struct member *member, const struct net_msg *msg, void **payload,
                       size_t len)
{
    assert_null(*payload);
    assert_int_equal(len, 0);
    assert_int_equal(msg->type, NET_MSG_PONG);
    OWN(member, serve)->pongs++;
    return takes;
}

static bool second_pong(struct member *member, const struct net_msg *msg, void **payload,
                        size_t len)
{
    assert_true(OWN(member, serve)->pongs > OWN(member, lease)->pongs);
    return msg->type == NET_MSG_PONG && !*payload && len == 0 &&
           ++OWN(member, lease)->pongs > 0;
}

static bool ping(struct member *member, const struct net_msg *msg, void **payload,
                 size_t len)
{
    return msg->type == NET_MSG_PING && !*payload && len == 0 &&
           ++OWN(member, lease)->pings > 0;
}

static void destroy(struct member *member)
{
    assert_true(OWN(member, serve)->pongs > 0);
    OWN(member, serve)->destroyed++;
}

static const struct member_module serve_module = {
    .own = MODULE_OWN(serve),
    .messages = (const struct member_message[]){{NET_MSG_PONG, first_pong}, {0}},
    .destroy = destroy,
};
static const struct member_module stateless_module;
static const struct member_module lease_module = {
    .own = MODULE_OWN(lease),
    .messages =
        (const struct member_message[]){
            {NET_MSG_PONG, second_pong}, {NET_MSG_PING, ping}, {0}},
};
static const struct member_module *const modules[] = {&serve_module, &stateless_module,
                                                      &lease_module, NULL};

static bool receive(struct member *member, enum net_msg_type type)
{
    struct net_msg msg = {.type = type};
    void *payload = NULL;

    return modules_receive(member, &msg, &payload, 0);
}

static void test_modules(void **state)
{
    struct member member[2] = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(modules_create(&member[i], modules), 0);
        member[i].modules = modules;
    }
    takes = true;
    assert_true(receive(&member[0], NET_MSG_PONG));
    assert_int_equal(OWN(&member[0], lease)->pongs, 0);
    takes = false;
    assert_true(receive(&member[0], NET_MSG_PONG));
    assert_int_equal(OWN(&member[0], serve)->pongs, 2);
    assert_int_equal(OWN(&member[0], lease)->pongs, 1);
    assert_true(receive(&member[0], NET_MSG_PING));
    assert_int_equal(OWN(&member[0], lease)->pings, 1);
    assert_false(receive(&member[0], NET_MSG_HELLO));
    assert_false(receive(&member[0], NET_MSG_TYPE_END - 1));
    assert_int_equal(OWN(&member[1], serve)->pongs, 0);
    modules_destroy(&member[0]);
    assert_int_equal(OWN(&member[0], serve)->pongs, 0);
    assert_int_equal(OWN(&member[0], serve)->destroyed, 0);
    for (int i = 0; i < 2; i++)
        modules_free(&member[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_modules)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
