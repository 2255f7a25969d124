/*
 * What `stats.py` does in Python: `lstat` of all the names of a page.
 *
 * It knows nothing of Python, so that one library serves every version of it. If the parameters change, so must the
 * name of the function: an old library may be there.
 */

#define _GNU_SOURCE
#define _FILE_OFFSET_BITS 64 /* large files and late times on systems of 32 bits, as in Python */
#define _TIME_BITS 64
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#ifdef __APPLE__
#define st_mtim st_mtimespec
#endif

/* Seconds, and further than any calendar of Python's: no product below overflows. */
static const int64_t furthest = INT64_C(1) << 50;

static int64_t milliseconds(struct timespec moment)
{
    int64_t seconds = moment.tv_sec;

    if (seconds > furthest)
        seconds = furthest;
    if (seconds < -furthest)
        seconds = -furthest;
    return seconds * 1000 + moment.tv_nsec / 1000000;
}

/*
 * The names follow one another, each ended by a NUL. A name that does not exist has the mode 0. Any other error is
 * returned, with the row of its name; 0 if there is none.
 */
int portico_stat_names(int folder, const char *names, size_t count, uint32_t *modes, int64_t *sizes,
                       int64_t *modified, size_t *row)
{
    size_t index;

    for (index = 0; index < count; index++, names += strlen(names) + 1) {
        struct stat found;

        if (fstatat(folder, names, &found, AT_SYMLINK_NOFOLLOW) == 0) {
            modes[index] = (uint32_t)found.st_mode;
            sizes[index] = (int64_t)found.st_size;
            modified[index] = milliseconds(found.st_mtim);
        } else if (errno == ENOENT) {
            modes[index] = 0;
        } else {
            *row = index;
            return errno;
        }
    }
    return 0;
}
