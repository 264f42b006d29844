/*
 * leave_mark.c - leave_mark DMD UPATH: die between the mark of a write-open and the open
 *
 * To be run without the preload.
 */
#include <stdio.h>
#include <unistd.h>

#include "store/dmd.h"
#include "store/marks.h"

int main(int argc, char *argv[])
{
    struct store_dir *dir;
    struct store_marks *marks;

    if (argc != 3 || !(dir = store_dir_create(argv[1])) ||
        !(marks = store_marks_create(dir)) || !store_marks_begin(marks, argv[2]))
        return 1;
    _exit(0);
}
