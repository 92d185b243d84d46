static void test_steps(setup **u, int nu) { (void)u; (void)nu; }
