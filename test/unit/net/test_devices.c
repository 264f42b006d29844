/*
 * test_devices.c - which addresses are private, and those of this host
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "net/devices.h"

static bool is_private(const char *text)
{
    struct sockaddr_in in = {.sin_family = AF_INET};
    struct sockaddr_in6 in6 = {.sin6_family = AF_INET6};

    if (inet_pton(AF_INET, text, &in.sin_addr) == 1)
        return net_devices_is_private((struct sockaddr *)&in);
    assert_int_equal(inet_pton(AF_INET6, text, &in6.sin6_addr), 1);
    return net_devices_is_private((struct sockaddr *)&in6);
}

static void test_private(void **state)
{
    static const char *const private[] = {
        "10.0.0.0",     "10.255.255.255",  "172.16.0.0",  "172.31.255.255",
        "192.168.0.1",  "192.168.255.255", "169.254.1.1", "100.64.0.0",
        "127.0.0.1",    "100.127.255.255", "::1",         "fe80::1",
        "febf:ffff::1", "fc00::1",         "fdff:ffff::1"};
    static const char *const public[] = {
        "9.255.255.255", "11.0.0.0",    "172.15.255.255", "172.32.0.0", "192.167.255.255",
        "192.169.0.0",   "169.253.0.1", "169.255.0.1",    "100.63.0.1", "100.128.0.0",
        "8.8.8.8",       "2001:db8::1", "fec0::1",        "fe00::1",    "::2"};

    (void)state;
    for (size_t i = 0; i < sizeof(private) / sizeof(private[0]); i++)
        if (!is_private(private[i]))
            fail_msg("%s is private", private[i]);
    for (size_t i = 0; i < sizeof(public) / sizeof(public[0]); i++)
        if (is_private(public[i]))
            fail_msg("%s is public", public[i]);
}

/* What this host has is not known, but that lo is private, and what UCX does not open. */
static void test_host(void **state)
{
    struct net_device_address found[64];
    char list[sizeof("lo,") + IF_NAMESIZE];

    (void)state;
    assert_int_equal(net_devices_public("lo", NULL, found, 64), 0);
    assert_int_equal(net_devices_public("mlx5_0:1,lo", NULL, found, 64), 0);
    assert_int_equal(net_devices_public(NULL, "rc,self", found, 64), 0);
    assert_int_equal(net_devices_public(NULL, "^sm,tcp", found, 64), 0);
    int n = net_devices_public(NULL, NULL, found, 64);
    assert_true(n >= 0 && n < 64);
    assert_int_equal(net_devices_public("all", "^sm", NULL, 0), n);
    assert_int_equal(net_devices_public(NULL, "tcp,self", NULL, 0), n);
    for (int i = 0; i < n; i++) {
        struct net_device_address one;
        assert_false(is_private(found[i].address));
        snprintf(list, sizeof(list), "lo,%.*s", IF_NAMESIZE - 1, found[i].device);
        assert_int_equal(net_devices_public(list, NULL, &one, 1), 1);
        assert_string_equal(one.address, found[i].address);
    }
}

static void test_local(void **state)
{
    char list[1024], one[2];

    (void)state;
    net_devices_local(list, sizeof(list));
    if (strncmp(list, "lo", 2) != 0 || (list[2] && list[2] != ','))
        fail_msg("loopback is up, and the list is \"%s\"", list);
    net_devices_local(one, sizeof(one)); /* half a name is none */
    assert_string_equal(one, "");
}

/* A name that is wrong is found, and the right ones are said, as far as they fit. */
static void test_look(void **state)
{
    static const char *const right[] = {"lo", "all", "lo,all", "^lo", "lo,lo"};
    static const struct {
        const char *list, *missing;
        enum net_devices_there found;
    } wrong[] = {{"none0", "none0", NET_DEVICES_NONE},
                 {"lo,none0", "none0", NET_DEVICES_SOME},
                 {"none1,none0,lo", "none1", NET_DEVICES_SOME},
                 {"none1,none0", "none1", NET_DEVICES_NONE},
                 {"^none0", "none0", NET_DEVICES_SOME},
                 {"lo:1", "lo:1", NET_DEVICES_NONE},
                 {"mlx9_99:1,lo", "mlx9_99:1", NET_DEVICES_SOME},
                 {"lo,", "", NET_DEVICES_SOME},
                 {" lo", " lo", NET_DEVICES_NONE},
                 {"../../..", "../../..", NET_DEVICES_NONE},
                 {"..", "..", NET_DEVICES_NONE}};
    char missing[16], there[1024];

    (void)state;
    for (size_t i = 0; i < sizeof(right) / sizeof(right[0]); i++)
        assert_int_equal(
            net_devices_look(right[i], missing, sizeof(missing), there, sizeof(there)),
            NET_DEVICES_ALL);
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        assert_int_equal(
            net_devices_look(wrong[i].list, missing, sizeof(missing), there, sizeof(there)),
            wrong[i].found);
        assert_string_equal(missing, wrong[i].missing);
        assert_true(strcmp(there, "lo") == 0 || strstr(there, "lo,") ||
                    strstr(there, ",lo"));
    }
    assert_int_equal(net_devices_look("none0", missing, 3, there, 1), NET_DEVICES_NONE);
    assert_string_equal(missing, "no");
    assert_string_equal(there, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_private),
        cmocka_unit_test(test_host),
        cmocka_unit_test(test_local),
        cmocka_unit_test(test_look),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
