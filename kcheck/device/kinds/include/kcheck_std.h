// Names of std:: are those of CUDA's own standard library.
#pragma once
namespace cuda { namespace std {} }
namespace std { using namespace cuda::std; }
