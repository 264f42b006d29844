/*
 * path_managed.c - which directories are managed
 *
 * They are compared by their physical names. The name that the variable has is kept beside
 * it: a path that begins with that text needs no walk up to there.
 */
#include <fcntl.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/env.h"
#include "util/path.h"
#include "wrapper/core.h"
#include "wrapper/path_impl.h"

struct prefix wrapper_path_managed[2];
struct prefix_form wrapper_path_forms[4];
unsigned wrapper_path_nforms;
bool wrapper_path_relative;

static struct prefix configured[2]; /* by side; as in the variable, normalised */
atomic_bool wrapper_path_forgotten;

/* where->text is a physical path. */
bool wrapper_path_match(struct wrapper_path *where)
{
    size_t len = strlen(where->text);

    for (int side = 0; side < 2; side++) {
        const char *upath = below(&wrapper_path_managed[side], where->text, len);
        if (upath &&
            (util_path_is_control(upath) || (!*upath && !(where->how & WRAPPER_PATH_DIR))))
            upath = NULL;
        where->upath[side] = upath;
    }
    return where->upath[0] || where->upath[1];
}

enum place wrapper_path_place(const char *dir, size_t len)
{
    enum place place = PLACE_FAR;

    for (int side = 0; side < 2; side++) {
        const struct prefix *prefix = &wrapper_path_managed[side];
        if (prefix->len == 0)
            continue;
        if (prefix->len == 1 ||
            (len >= prefix->len && !memcmp(dir, prefix->text, prefix->len) &&
             (len == prefix->len || dir[prefix->len] == '/')))
            return PLACE_BELOW;
        if (len < prefix->len && !memcmp(dir, prefix->text, len) &&
            prefix->text[len] == '/')
            place = PLACE_ABOVE;
    }
    return place;
}

/* --- set-up --- */

/* The file system of a managed directory. What is mounted below one is not shared: a
 * fetched file is renamed into place. */
static struct {
    bool known;
    dev_t dev;
} device[2];

static void set_device(int side)
{
    struct stat st;

    device[side].known =
        wrapper_path_managed[side].len &&
        syscall(SYS_newfstatat, AT_FDCWD, wrapper_path_managed[side].text, &st, 0) == 0;
    if (device[side].known)
        device[side].dev = st.st_dev;
}

bool wrapper_path_on_device(dev_t dev)
{
    for (int side = 0; side < 2; side++)
        if (wrapper_path_managed[side].len &&
            (!device[side].known || device[side].dev == dev))
            return true;
    return false;
}

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
    /* What of it is not there yet is taken as it is written. */
    if (wrapper_path_walk(&where, 0, joined, &w) < 0) {
        *physical = *as_given;
        return;
    }
    physical->len = strlen(where.text);
    memcpy(physical->text, where.text, physical->len + 1);
}

static void add_form(const struct prefix *prefix, int side)
{
    for (unsigned i = 0; i < wrapper_path_nforms; i++)
        if (wrapper_path_forms[i].prefix->len == prefix->len &&
            memcmp(wrapper_path_forms[i].prefix->text, prefix->text, prefix->len) == 0)
            return;
    if (prefix->len) {
        wrapper_path_forms[wrapper_path_nforms].prefix = prefix;
        wrapper_path_forms[wrapper_path_nforms++].side = side;
    }
}

bool wrapper_path_configured(void)
{
    return configured[0].len || configured[1].len;
}

bool wrapper_path_forget(void)
{
    return wrapper_path_configured() && !atomic_exchange(&wrapper_path_forgotten, true);
}

bool wrapper_path_setup(char *const env[])
{
    static const char *const name[2] = {"DYAD_PATH_CONSUMER", "DYAD_PATH_PRODUCER"};
    const char *both = util_env_get(env, "DYAD_PATH");
    const char *flag = util_env_get(env, "DYAD_PATH_RELATIVE");
    bool any = false;

    wrapper_path_nforms = 0;
    for (int side = 0; side < 2; side++) {
        const char *path = util_env_get(env, name[side]);
        if (!path || !*path)
            path = both;
        if (!path || !*path)
            continue;
        set_prefix(&configured[side], &wrapper_path_managed[side], path);
        set_device(side);
        add_form(&wrapper_path_managed[side], side);
        add_form(&configured[side], side);
        any = any || configured[side].len;
    }
    wrapper_path_relative = flag && (!strcmp(flag, "1") || !strcasecmp(flag, "on") ||
                                     !strcasecmp(flag, "true") || !strcasecmp(flag, "yes"));
    return any;
}
