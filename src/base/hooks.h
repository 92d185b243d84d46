/*
** For tests only: the allocation that fails on request, bugs planted in the planner, and the Lua
** functions for them (lua/hooks.c). Only a build with FLAME_TEST_HOOKS (the CMake presets "test",
** "debug" and those that inherit from "debug") acts on them; in a release FL_HOOKS is 0 and the
** code behind it is dropped. The fields that hold a request are in every build, so that all builds
** have the same structs.
*/
#ifndef FL_BASE_HOOKS_H
#define FL_BASE_HOOKS_H

#ifdef FLAME_TEST_HOOKS
enum { FL_HOOKS = 1 };
#else
enum { FL_HOOKS = 0 };
#endif

/* Bugs planted in the planner and in replayed runs; the specs (tests) must find each of them. */
enum { FL_PLANT_NONE, FL_PLANT_ORDER, FL_PLANT_COPY, FL_PLANT_DEAD, FL_PLANT_SCALAR,
       FL_PLANT_ADDRESS, FL_PLANT_STALE, FL_PLANT_GRAPH, FL_PLANT_BOUND, FL_PLANT_SOON,
       FL_PLANT_WAITS, FL_PLANT_LATE, FL_PLANT_GUARD, FL_PLANT_COUNT };
#define FL_PLANTED(c, bug) (FL_HOOKS && (c)->planted == (bug))
#endif
