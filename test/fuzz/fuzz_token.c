/*
 * fuzz_token.c - the token by which a connection begins
 *
 * One that has the magic is read before its MAC is verified.
 */
#include <arpa/inet.h>
#include <string.h>

#include "fuzz.h"
#include "net/door_impl.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint8_t text[DOOR_TEXT_LEN], again[DOOR_TEXT_LEN];
    struct net_door_token token = {0};
    struct fuzz_input in = {data, len};

    memcpy(text, door_magic, sizeof(door_magic));
    fuzz_take(&in, text + sizeof(door_magic), sizeof(text) - sizeof(door_magic));
    if (door_token_get(text, &token)) {
        fuzz_taken++;
        FUZZ_CHECK(door_token_put(again, &token));
        FUZZ_CHECK(memcmp(again, text, sizeof(text)) == 0);
    }
    fuzz_take(&in, text, sizeof(text));
    if (door_token_get(text, &token))
        FUZZ_CHECK(memcmp(text, door_magic, sizeof(door_magic)) == 0);
    return 0;
}

void fuzz_seeds(void)
{
    struct net_door_token token = {.flags = 1,
                                   .from = 1,
                                   .from_incarnation = 2,
                                   .to = 3,
                                   .to_incarnation = 4,
                                   .number = 1764000000000000005,
                                   .random = "8 bytes."};
    const struct sockaddr_in from = {.sin_family = AF_INET, .sin_port = htons(4711)};
    const struct sockaddr_in6 to = {.sin6_family = AF_INET6,
                                    .sin6_port = htons(80),
                                    .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    uint8_t text[DOOR_TEXT_LEN];

    door_put_end(token.ends[0], (const void *)&from);
    door_put_end(token.ends[1], (const void *)&to);
    FUZZ_CHECK(door_token_put(text, &token));
    fuzz_seed("token", text + sizeof(door_magic), sizeof(text) - sizeof(door_magic));
}
