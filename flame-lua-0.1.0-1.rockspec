rockspec_format = "3.0"
package = "flame-lua"
version = "0.1.0-1"
source = { url = "file://flame-lua-0.1.0.tar.gz" }        -- 'luarocks make' builds what is here
description = {
  summary = "Tensors, gradients and CUDA kernels for Lua 5.4",
  detailed = "The module flame: differentiable GPU programs, on the CPU where there is no GPU. "
    .. "Building needs a C compiler, CMake 3.25 and Lua's static library.",
  license = "MIT",
}
supported_platforms = { "linux" }
dependencies = { "lua >= 5.4, < 5.5" }
build = {
  type = "command",
  build_command = "cmake -S . -B build-rock -DCMAKE_BUILD_TYPE=Release -DLUA_INCLUDE=$(LUA_INCDIR)"
    .. " -Wno-dev && cmake --build build-rock --target flame_module --parallel",
  install = { lib = { flame = "build-rock/flame.so" } },
}
