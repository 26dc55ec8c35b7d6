// PyTorch generates this header when it is built for CUDA; its wheels for the CPU do not have it.
#pragma once

#define C10_CUDA_BUILD_SHARED_LIBS
