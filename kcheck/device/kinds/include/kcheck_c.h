// Everything that the headers of C declare and a kernel can use is declared without an #include.
#pragma once
