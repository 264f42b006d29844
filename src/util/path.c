/*
 * path.c - lexical normalisation, component by component; never writes ahead of what it
 * reads
 */
#include "util/path.h"

#include <string.h>

size_t util_path_normalise(const char *in, char *out, size_t size, bool *dir)
{
    size_t n = 0;

    *dir = false;
    while (*in) {
        const char *end;
        size_t len;

        while (*in == '/')
            in++;
        if (!*in) {
            *dir = true;
            break;
        }
        end = strchrnul(in, '/');
        len = (size_t)(end - in);
        *dir = false;
        if (len == 1 && in[0] == '.') {
            *dir = true;
        } else if (len == 2 && in[0] == '.' && in[1] == '.') {
            while (n > 0 && out[--n] != '/')
                ;
            *dir = true;
        } else {
            if (n + 1 + len + 1 > size)
                return 0;
            out[n++] = '/';
            memmove(out + n, in, len);
            n += len;
        }
        in = end;
    }
    if (n == 0)
        out[n++] = '/';
    out[n] = '\0';
    return n;
}
