/* cudaGetDeviceProperties: the struct of CUDA 13, and that of CUDA 12, whose function has the suffix _v2. */
#include "runtime.h"

#define TEXTURES(...)                                                                                             \
    int maxTexture1D, maxTexture1DMipmap __VA_ARGS__, maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3],      \
        maxTexture2DGather[2], maxTexture3D[3], maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2],       \
        maxTexture2DLayered[3], maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2], maxSurface3D[3],         \
        maxSurface1DLayered[2], maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];
#define FIRST                                                                                                        \
    char name[256], uuid[16], luid[8];                                                                               \
    unsigned luidDeviceNodeMask;                                                                                     \
    size_t totalGlobalMem, sharedMemPerBlock;                                                                        \
    int regsPerBlock, warpSize;                                                                                      \
    size_t memPitch;                                                                                                 \
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];
#define LAST                                                                                                         \
    size_t sharedMemPerBlockOptin;                                                                                   \
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor,          \
        accessPolicyMaxWindowSize;                                                                                   \
    size_t reservedSharedMemPerBlock;                                                                                \
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported,                              \
        timelineSemaphoreInteropSupported, memoryPoolsSupported, rest[5], ipcEventSupported, clusterLaunch,          \
        unifiedFunctionPointers;

struct properties13 {
    FIRST
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int multiProcessorCount, integrated, canMapHostMemory;
    TEXTURES()
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing,
        memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported,
        globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported,
        pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem,
        cooperativeLaunch;
    LAST
    int more[7], reserved[56];
};
struct properties12 {
    FIRST
    int clockRate;
    size_t totalConstMem;
    int major, minor;
    size_t textureAlignment, texturePitchAlignment;
    int deviceOverlap, multiProcessorCount, kernelExecTimeoutEnabled, integrated, canMapHostMemory, computeMode;
    TEXTURES(, maxTexture1DLinear)
    size_t surfaceAlignment;
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount, unifiedAddressing,
        memoryClockRate, memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor,
        streamPrioritiesSupported, globalL1CacheSupported, localL1CacheSupported;
    size_t sharedMemPerMultiprocessor;
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported,
        singleToDoublePrecisionPerfRatio, pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported,
        canUseHostPointerForRegisteredMem, cooperativeLaunch, cooperativeMultiDeviceLaunch;
    LAST
    int reserved[63];
};

static int attribute_of(int number) {
    int value = 0;
    DRIVER(cuDeviceGetAttribute, A(&value), A(number), 0);
    return value;
}

/* What both have. The numbers are those of cudaDeviceAttr. */
#define FILL(p)                                                                                                      \
    do {                                                                                                             \
        memset(p, 0, sizeof *p);                                                                                     \
        DRIVER(cuDeviceGetName, A(p->name), 256, 0);                                                                 \
        DRIVER(cuDeviceGetUuid, A(p->uuid), 0);                                                                      \
        DRIVER(cuDeviceTotalMem, A(&p->totalGlobalMem), 0);                                                          \
        p->maxThreadsPerBlock = attribute_of(1);                                                                     \
        for (int n = 0; n < 3; n++) p->maxThreadsDim[n] = attribute_of(2 + n), p->maxGridSize[n] = attribute_of(5 + n); \
        p->sharedMemPerBlock = attribute_of(8), p->totalConstMem = attribute_of(9), p->warpSize = attribute_of(10);  \
        p->memPitch = attribute_of(11), p->regsPerBlock = attribute_of(12), p->textureAlignment = attribute_of(14);  \
        p->texturePitchAlignment = 32, p->surfaceAlignment = 512, p->multiProcessorCount = attribute_of(16);         \
        p->integrated = attribute_of(18), p->canMapHostMemory = attribute_of(19);                                    \
        p->maxTexture1D = p->maxSurface1D = 131072, p->maxTexture2D[0] = p->maxSurface2D[0] = 131072;                \
        p->maxTexture2D[1] = p->maxSurface2D[1] = 65536, p->maxTexture2DLinear[0] = 131072;                          \
        p->maxTexture2DLinear[1] = 65000, p->maxTexture2DLinear[2] = 2097120;                                        \
        for (int n = 0; n < 3; n++) p->maxTexture3D[n] = 16384;                                                      \
        p->maxTexture1DLayered[0] = p->maxTexture2DLayered[0] = p->maxTexture2DLayered[1] = 32768;                   \
        p->maxTexture1DLayered[1] = p->maxTexture2DLayered[2] = 2048;                                                \
        p->concurrentKernels = attribute_of(31), p->asyncEngineCount = attribute_of(40);                             \
        p->unifiedAddressing = attribute_of(41), p->memoryBusWidth = attribute_of(37);                               \
        p->l2CacheSize = attribute_of(38), p->maxThreadsPerMultiProcessor = attribute_of(39);                        \
        p->major = attribute_of(75), p->minor = attribute_of(76);                                                    \
        p->streamPrioritiesSupported = attribute_of(78), p->globalL1CacheSupported = attribute_of(79);               \
        p->localL1CacheSupported = attribute_of(80), p->sharedMemPerMultiprocessor = attribute_of(81);               \
        p->regsPerMultiprocessor = attribute_of(82), p->managedMemory = attribute_of(83);                            \
        p->hostNativeAtomicSupported = attribute_of(86), p->pageableMemoryAccess = attribute_of(88);                 \
        p->concurrentManagedAccess = attribute_of(89), p->computePreemptionSupported = attribute_of(90);             \
        p->canUseHostPointerForRegisteredMem = attribute_of(91), p->cooperativeLaunch = attribute_of(95);            \
        p->sharedMemPerBlockOptin = attribute_of(97), p->hostRegisterSupported = 1;                                  \
        p->maxBlocksPerMultiProcessor = attribute_of(106), p->reservedSharedMemPerBlock = attribute_of(111);         \
        p->memoryPoolsSupported = attribute_of(115), p->unifiedFunctionPointers = 1;                                 \
    } while (0)

API int cudaGetDeviceProperties(struct properties13 *p, int device) {
    int count, error = cudaGetDeviceCount(&count);
    if (error || device) return kc_keep(error ? error : INVALID_DEVICE);
    FILL(p);
    return 0;
}
API int cudaGetDeviceProperties_v2(struct properties12 *p, int device) {
    int count, error = cudaGetDeviceCount(&count);
    if (error || device) return kc_keep(error ? error : INVALID_DEVICE);
    FILL(p);
    p->clockRate = attribute_of(13), p->memoryClockRate = attribute_of(36), p->deviceOverlap = attribute_of(15);
    p->singleToDoublePrecisionPerfRatio = attribute_of(87), p->maxTexture1DLinear = 268435456;
    return 0;
}
