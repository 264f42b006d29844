/*
 * list_symbols.c - prints the names in wrapper/symbols.def: list_symbols symbols | covered
 */
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv)
{
    if (argc != 2)
        return 2;
    if (strcmp(argv[1], "symbols") == 0) {
#define WRAPPER_SYMBOL(ret, name, params)            puts(#name);
#define WRAPPER_SYMBOL_V(ret, name, params, version) puts(#name);
#define WRAPPER_COVERED(name)
#define WRAPPER_FOREIGN(name) puts(#name);
#include "wrapper/symbols.def"
#undef WRAPPER_SYMBOL
#undef WRAPPER_SYMBOL_V
#undef WRAPPER_COVERED
#undef WRAPPER_FOREIGN
    } else {
#define WRAPPER_SYMBOL(ret, name, params)
#define WRAPPER_SYMBOL_V(ret, name, params, version)
#define WRAPPER_COVERED(name) puts(#name);
#include "wrapper/symbols.def"
    }
    return 0;
}
