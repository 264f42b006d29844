/*
 * path_managed.c - which directories are managed
 *
 * They are compared by their physical names. The name that the variable has is kept beside
 * it: a path that begins with that text needs no walk up to there.
 */
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "util/path.h"
#include "wrapper/path_impl.h"

struct prefix wrapper_path_managed[2];
struct prefix_form wrapper_path_forms[4];
unsigned wrapper_path_nforms;
bool wrapper_path_relative;

struct prefix wrapper_path_given[2];
atomic_bool wrapper_path_forgotten;

/* where->text is a physical path. */
bool wrapper_path_match(struct wrapper_path *where)
{
    size_t len = strlen(where->text);

    for (int role = 0; role < 2; role++) {
        const char *upath = below(&wrapper_path_managed[role], where->text, len);
        if (upath &&
            (util_path_is_control(upath) || (!*upath && !(where->how & WRAPPER_PATH_DIR))))
            upath = NULL;
        where->upath[role] = upath;
    }
    return where->upath[0] || where->upath[1];
}

enum place wrapper_path_place(const char *dir, size_t len)
{
    enum place place = PLACE_FAR;

    for (int role = 0; role < 2; role++) {
        const struct prefix *prefix = &wrapper_path_managed[role];
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

/* The file system of a managed directory. A file system mounted below one is not shared: a
 * fetched file is renamed into place. */
static struct {
    bool known;
    dev_t dev;
} device[2];

void wrapper_path_set_device(int role)
{
    struct stat st;

    device[role].known =
        wrapper_path_managed[role].len &&
        syscall(SYS_newfstatat, AT_FDCWD, wrapper_path_managed[role].text, &st, 0) == 0;
    if (device[role].known)
        device[role].dev = st.st_dev;
}

bool wrapper_path_on_device(dev_t dev)
{
    for (int role = 0; role < 2; role++)
        if (wrapper_path_managed[role].len &&
            (!device[role].known || device[role].dev == dev))
            return true;
    return false;
}

bool wrapper_path_configured(void)
{
    return wrapper_path_given[0].len || wrapper_path_given[1].len;
}

bool wrapper_path_forget(void)
{
    return wrapper_path_configured() && !atomic_exchange(&wrapper_path_forgotten, true);
}
