/*
 * path_setup.c - the managed directories, from the variables
 */
#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/env.h"
#include "util/path.h"
#include "wrapper/path_impl.h"

static void set_prefix(struct prefix *as_given, struct prefix *physical, const char *path)
{
    struct wrapper_path where = {.how = WRAPPER_PATH_DIR | WRAPPER_PATH_FOLLOW_ALL};
    char joined[2 * PATH_MAX];
    size_t at = 0, n = strlen(path);
    struct walk w = {.follow = true};
    bool dir;

    if (path[0] != '/') {
        long cwd = syscall(SYS_getcwd, joined, PATH_MAX);
        if (cwd <= 0 || joined[0] != '/')
            return;
        at = (size_t)cwd - 1;
        joined[at++] = '/';
    }
    if (at + n >= sizeof(joined))
        return;
    memcpy(joined + at, path, n + 1);
    as_given->len =
        util_path_normalise(joined, as_given->text, sizeof(as_given->text), &dir);
    if (as_given->len == 0)
        return;
    /* Components that do not exist yet are taken as they are written. */
    if (wrapper_path_walk(&where, 0, joined, &w) < 0) {
        *physical = *as_given;
        return;
    }
    physical->len = strlen(where.text);
    memcpy(physical->text, where.text, physical->len + 1);
}

static void add_form(const struct prefix *prefix, int role)
{
    for (unsigned i = 0; i < wrapper_path_nforms; i++)
        if (wrapper_path_forms[i].prefix->len == prefix->len &&
            memcmp(wrapper_path_forms[i].prefix->text, prefix->text, prefix->len) == 0)
            return;
    if (prefix->len) {
        wrapper_path_forms[wrapper_path_nforms].prefix = prefix;
        wrapper_path_forms[wrapper_path_nforms++].role = role;
    }
}

bool wrapper_path_setup(char *const env[])
{
    static const char *const name[2] = {"DYAD_PATH_CONSUMER", "DYAD_PATH_PRODUCER"};
    const char *both = util_env_get(env, "DYAD_PATH");
    const char *flag = util_env_get(env, "DYAD_PATH_RELATIVE");
    bool any = false;

    wrapper_path_nforms = 0;
    for (int role = 0; role < 2; role++) {
        const char *path = util_env_get(env, name[role]);
        if (!path || !*path)
            path = both;
        if (!path || !*path)
            continue;
        set_prefix(&wrapper_path_given[role], &wrapper_path_managed[role], path);
        wrapper_path_set_device(role);
        add_form(&wrapper_path_managed[role], role);
        add_form(&wrapper_path_given[role], role);
        any = any || wrapper_path_given[role].len;
    }
    wrapper_path_relative = flag && (!strcmp(flag, "1") || !strcasecmp(flag, "on") ||
                                     !strcasecmp(flag, "true") || !strcasecmp(flag, "yes"));
    return any;
}
