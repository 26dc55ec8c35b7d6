/* Copies between host memory and device memory: the program copies, and the device process checks the range. Memory of
 * the host that is registered. */
#include "client.h"

#include <sys/mman.h>
#include <unistd.h>

static int write_device(u64 to, u64 from, u64 size) {
    kc_wait_for_host_work();
    int error = size ? REMOTE("kcheckWrite", to, size) : 0;
    if (!error && size) memcpy((void *)to, (void *)from, size);
    return error;
}
static int read_device(u64 to, u64 from, u64 size) {
    kc_wait_for_host_work();
    int error = size ? REMOTE("kcheckRead", from, size) : 0;
    if (!error && size) memmove((void *)to, (void *)from, size);
    return error;
}
static int copy_any(u64 to, u64 from, u64 size) {
    kc_wait_for_host_work();
    kc_connected();
    if (is_shared(to) && is_shared(from)) return REMOTE("cuMemcpyAsync", to, from, size, 0);
    if (is_shared(to)) return write_device(to, from, size);
    if (is_shared(from)) return read_device(to, from, size);
    memmove((void *)to, (void *)from, size);
    return 0;
}
static int write_async(u64 to, u64 from, u64 size, u64 stream) { (void)stream; return write_device(to, from, size); }
static int read_async(u64 to, u64 from, u64 size, u64 stream) { (void)stream; return read_device(to, from, size); }
static int copy_async(u64 to, u64 from, u64 size, u64 stream) { (void)stream; return copy_any(to, from, size); }

/* The host's side of a copy of a box goes through memory that is shared for the time of the copy. */
enum { X, Y, Z, LEVEL, MEMORY, HOST, DEVICE_AT, ARRAY, RESERVED, PITCH, HEIGHT, SIDE = 11 };
static int copy_box(u64 given, u64 stream) {
    u64 box[25], staged[2] = {0}, saved[2][11];
    memcpy(box, (void *)given, sizeof box);
    u64 width = box[22], rows = box[23], slices = box[24], size = width * rows * slices;
    kc_wait_for_host_work();
    kc_connected();
    int error = 0;
    for (int side = 0; side < 2 && !error; side++) {
        u64 *s = box + side * SIDE;
        u32 kind = (u32)s[MEMORY];
        if (kind == 4) s[MEMORY] = kind = is_shared(s[DEVICE_AT]) ? 2 : 1, s[kind == 1 ? HOST : DEVICE_AT] = s[DEVICE_AT];
        memcpy(saved[side], s, sizeof saved[side]);
        if (kind != 1 || is_shared(s[HOST])) continue;
        error = REMOTE("kcheckStage", A(&staged[side]), size);
        if (error) break;
        s[HOST] = staged[side], s[X] = s[Y] = s[Z] = 0, s[PITCH] = width, s[HEIGHT] = rows;
    }
    for (int side = 0; side < 2 && !error; side++) {
        if (side) error = REMOTE("cuMemcpy3DAsync", A(box), stream);
        if (error || !staged[side]) continue;
        const u64 *s = saved[side];
        u64 height = s[HEIGHT] ? s[HEIGHT] : rows, pitch = s[PITCH] ? s[PITCH] : width;
        for (u64 z = 0; z < slices; z++)
            for (u64 y = 0; y < rows; y++) {
                char *host = (char *)s[HOST] + ((s[Z] + z) * height + s[Y] + y) * pitch + s[X];
                char *shared = (char *)staged[side] + (z * rows + y) * width;
                if (side) memcpy(host, shared, width); else memcpy(shared, host, width);
            }
    }
    for (int side = 0; side < 2; side++)
        if (staged[side]) REMOTE("kcheckUnstage", staged[side]);
    return error;
}
static int copy_box_now(u64 given) { return copy_box(given, 0); }
static int copy_2d(u64 given, u64 stream) { /* CUDA_MEMCPY2D */
    const u64 *g = (const u64 *)given;
    u64 box[25] = {g[0], g[1], 0, 0, g[2], g[3], g[4], g[5], 0, g[6], g[15], g[7], g[8], 0, 0, g[9], g[10], g[11], g[12], 0, g[13], g[15], g[14], g[15], 1};
    return copy_box(A(box), stream);
}
static int copy_2d_now(u64 given) { return copy_2d(given, 0); }

/* Registered memory: its pages are replaced by pages of device memory, at the same address. */
static int host_register(u64 address, u64 size, u64 flags) {
    (void)flags;
    u64 page = (u64)sysconf(_SC_PAGESIZE), low = address & ~(page - 1), high = (address + size + page - 1) & ~(page - 1), place;
    if (!address || !size) return INVALID_VALUE;
    kc_connected();
    if (is_shared(address)) return 712; /* cudaErrorHostMemoryAlreadyRegistered */
    int error = REMOTE("kcheckRegister", A(&place), address, size);
    if (error) return error;
    memcpy((void *)place, (void *)low, high - low);
    void *at = mmap((void *)low, high - low, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, kc_memory_file, (off_t)(place - kc_device.address));
    return at == (void *)low ? 0 : OUT_OF_MEMORY;
}
static int host_unregister(u64 address) { return REMOTE("kcheckUnregister", address); } /* the pages stay: they hold the data */

const struct named kc_copy_calls[] = {
    {"cuMemcpyHtoD", write_device}, {"cuMemcpyHtoDAsync", write_async}, {"cuMemcpyDtoH", read_device}, {"cuMemcpyDtoHAsync", read_async},
    {"cuMemcpy", copy_any}, {"cuMemcpyAsync", copy_async}, {"cuMemcpy3D", copy_box_now}, {"cuMemcpy3DAsync", copy_box},
    {"cuMemcpy2D", copy_2d_now}, {"cuMemcpy2DUnaligned", copy_2d_now}, {"cuMemcpy2DAsync", copy_2d},
    {"cuMemHostRegister", host_register}, {"cuMemHostUnregister", host_unregister}, {NULL, NULL},
};
