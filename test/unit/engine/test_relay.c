/*
 * test_relay.c - whom the owner names to each reader of a large file
 *
 * relay.c alone: who lives is played by the test.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "engine/core/module.h"
#include "engine/fetch/relay.h"
#include "engine/membership/unreachable.h"

#define READERS 200
#define LARGE   (1u << 20)

extern const struct member_module relay_module;
static const struct member_module *const modules[] = {&relay_module, NULL};

static struct member member_made;
static struct member *const member = &member_made;
static struct engine_config config;
static bool dead[READERS + 1], suspect[READERS + 1];
static uint32_t named; /* in the last REDIRECT, and to whom */
static uint32_t told;

bool dht_node_is_live(const struct dht_node *node, uint32_t rank)
{
    (void)node;
    return !dead[rank];
}

bool unreachable_is_silent(const struct member *m, uint32_t rank)
{
    (void)m;
    return suspect[rank];
}

int member_send(struct member *m, uint32_t rank, struct net_msg *msg)
{
    (void)m;
    assert_int_equal(msg->type, NET_MSG_REDIRECT);
    assert_int_equal(msg->blob_len, 0);
    assert_int_equal(msg->id, rank * 10);
    told = rank;
    named = msg->rank;
    return 0;
}

static struct dyad_entry entry_of(const char *upath, uint64_t counter, uint64_t size)
{
    return (struct dyad_entry){.upath = upath, .size = size, .version.counter = counter};
}

/* The rank that is named to this one; 0: the owner serves it. */
static uint32_t source_of(const struct dyad_entry *entry, uint32_t rank)
{
    told = named = 0;
    if (!relay_redirect(member, rank, rank * 10, entry)) {
        assert_int_equal(told, 0);
        return 0;
    }
    assert_int_equal(told, rank);
    return named;
}

static int setup(void **state)
{
    (void)state;
    memset(member, 0, sizeof(*member));
    memset(dead, 0, sizeof(dead));
    memset(suspect, 0, sizeof(suspect));
    config.chunk_size = LARGE / 4;
    config.chunks = 2;
    member->config = &config;
    member->modules = modules;
    return modules_create(member, modules);
}

static int teardown(void **state)
{
    (void)state;
    modules_destroy(member);
    modules_free(member);
    return 0;
}

/* The owner and each reader serve two at most, and each is named the same one when it asks
 * again; the way to the owner is as long as the tree is high. */
static void test_tree(void **state)
{
    struct dyad_entry entry = entry_of("file", 1, LARGE);
    unsigned served[READERS + 1] = {0}, depth[READERS + 1] = {0};

    (void)state;
    for (uint32_t rank = 1; rank <= READERS; rank++) {
        uint32_t source = source_of(&entry, rank);
        assert_true(source < rank); /* ranks come in their order: nobody waits in a ring */
        served[source]++;
        depth[rank] = depth[source] + 1;
        assert_int_equal(source_of(&entry, rank), source);
    }
    for (uint32_t rank = 0; rank <= READERS; rank++) {
        assert_in_range(served[rank], 0, 2);
        assert_in_range(depth[rank], 0, 7);
    }
    assert_int_equal(served[0], 2);
}

/* Who is dead or silent is passed over: the next one above it is named, or the owner
 * serves. */
static void test_dead(void **state)
{
    struct dyad_entry entry = entry_of("file", 1, LARGE);

    (void)state;
    for (uint32_t rank = 1; rank <= 6; rank++)
        source_of(&entry, rank);
    assert_int_equal(source_of(&entry, 7), 3); /* which is served by 1 */
    dead[3] = true;
    assert_int_equal(source_of(&entry, 7), 1);
    suspect[1] = true;
    assert_int_equal(source_of(&entry, 7), 0);
    suspect[1] = dead[3] = false;
    assert_int_equal(source_of(&entry, 7), 3);
}

/* A new version has other readers; a small file, a guest and the owner itself none. */
static void test_versions(void **state)
{
    struct dyad_entry first = entry_of("file", 1, LARGE),
                      second = entry_of("file", 2, LARGE);
    struct dyad_entry small = entry_of("small", 1, LARGE / 2);

    (void)state;
    for (uint32_t rank = 1; rank <= 3; rank++) {
        assert_int_equal(source_of(&first, rank), rank < 3 ? 0 : 1);
        assert_int_equal(source_of(&small, rank), 0);
    }
    assert_int_equal(source_of(&second, 3), 0);
    assert_int_equal(source_of(&second, 2), 0);
    assert_int_equal(source_of(&second, 1), 3);
    assert_false(relay_redirect(member, 0, 0, &second)); /* member->self.rank */
    assert_false(relay_redirect(member, net_guest_id(9, 1), 0, &second));
}

/* What the owner has made of each chunk is told to who gets it from here; of that version, and of such a chunk only. */
static void test_digests(void **state)
{
    const uint64_t chunk = LARGE / 4;
    struct dyad_entry first = entry_of("file", 1, LARGE - 1),
                      last = entry_of("file", 2, LARGE),
                      small = entry_of("small", 1, LARGE / 2), other;
    char upath[16];

    (void)state;
    assert_int_equal(relay_digest(member, &first, 0, chunk), 0);
    for (uint64_t i = 0; i < 4; i++)
        relay_note(member, &first, i * chunk, i < 3 ? chunk : chunk - 1, 10 + i);
    relay_note(member, &first, 4 * chunk, chunk, 99); /* behind its end */
    relay_note(member, &first, chunk, chunk, 0);      /* nothing to say */
    relay_note(member, &small, 0, chunk, 7);          /* is passed on by nobody */
    for (uint64_t i = 0; i < 4; i++)
        assert_int_equal(relay_digest(member, &first, i * chunk, i < 3 ? chunk : chunk - 1),
                         10 + i);
    assert_int_equal(relay_digest(member, &first, 0, chunk / 2), 0);
    assert_int_equal(relay_digest(member, &first, chunk / 2, chunk), 0);
    assert_int_equal(relay_digest(member, &first, 4 * chunk, chunk), 0);
    assert_int_equal(relay_digest(member, &last, 0, chunk), 0);
    assert_int_equal(relay_digest(member, &small, 0, chunk), 0);
    relay_note(member, &last, chunk, chunk, 21);
    assert_int_equal(relay_digest(member, &first, chunk, chunk), 0);
    assert_int_equal(relay_digest(member, &last, 0, chunk), 0);
    assert_int_equal(relay_digest(member, &last, chunk, chunk), 21);
    for (int file = 0; file < 200; file++) {
        snprintf(upath, sizeof(upath), "%d", file);
        other = entry_of(upath, 1, LARGE);
        relay_note(member, &other, 0, chunk, 1);
    }
    assert_int_equal(relay_digest(member, &last, chunk, chunk), 0); /* forgotten */
    assert_int_equal(relay_digest(member, &other, 0, chunk), 1);
}

/* More files than are remembered: the ones that were asked for last are. */
static void test_many_files(void **state)
{
    char upath[16];

    (void)state;
    for (int file = 0; file < 1000; file++) {
        struct dyad_entry kept = entry_of("kept", 1, LARGE), other;
        snprintf(upath, sizeof(upath), "%d", file);
        other = entry_of(upath, 1, LARGE);
        for (uint32_t rank = 1; rank <= 3; rank++) {
            assert_int_equal(source_of(&other, rank), rank < 3 ? 0 : 1);
            assert_int_equal(source_of(&kept, rank), rank < 3 ? 0 : 1);
        }
    }
    struct dyad_entry gone = entry_of("0", 1, LARGE);
    assert_int_equal(source_of(&gone, 3), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_tree, setup, teardown),
        cmocka_unit_test_setup_teardown(test_dead, setup, teardown),
        cmocka_unit_test_setup_teardown(test_versions, setup, teardown),
        cmocka_unit_test_setup_teardown(test_digests, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_files, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
