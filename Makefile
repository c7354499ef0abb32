# shardlet
#
#	make, make install	build and install, as with every extension
#	make check			every test; installs what is missing first (ONLY=name for one)
#	make check-long		the same with the long tests
#	make check-clients	drivers, ORMs and migration tools, compared with a plain database
#	make check-versions	every test on PostgreSQL 15 to 18, built with assertions
#	make lint			layout and linters alone;  make indent lays out the C files
#	make demo			a private cluster to play with;  make demo-stop removes it
#	make bench			what sharding costs, in ratios
#	make ack			accept the results of failed tests, after reading the diff
#
# Switches: WERROR=1 ASSERTS=1 UBSAN=1 FAULTS=1 (named crash points, for tests).

# Goals that must work before PostgreSQL's build files are installed.
STANDALONE = check check-long check-clients check-versions demo demo-stop bench lint indent ack

ifneq ($(filter $(STANDALONE),$(MAKECMDGOALS)),)

# PGXS has a "check" of its own, so it must stay out as soon as one of these is
# asked for; the other goals ("make clean check") go to a make of their own.
.PHONY: $(MAKECMDGOALS)
.NOTPARALLEL:
$(filter $(STANDALONE),$(MAKECMDGOALS)):
	@tools/$@
$(filter-out $(STANDALONE),$(MAKECMDGOALS)):
	@$(MAKE) $@

else

EXTENSION = shardlet
EXTVERSION = $(shell sed -n "s/^default_version = '\(.*\)'/\1/p" $(EXTENSION).control)
MODULE_big = $(EXTENSION)
OBJS = $(patsubst %.c,%.o,$(sort $(wildcard src/*.c src/*/*.c)))
DATA = $(wildcard sql/$(EXTENSION)--*--*.sql)
DATA_built = sql/$(EXTENSION)--$(EXTVERSION).sql
PGFILEDESC = "shardlet - several databases as one sharded database"

# -MMD: Debian's server is configured without dependency tracking, and a
# changed header must rebuild what includes it.
PG_CPPFLAGS = -Isrc -I$(libpq_srcdir)
PG_CFLAGS = -MMD -MP -Wextra -Wno-unused-parameter -Wshadow -Wvla -Wformat=2 -Wnull-dereference \
	$(if $(findstring clang,$(shell $(CC) --version)),$(CLANG_FLAGS),$(GCC_FLAGS)) \
	$(if $(WERROR),-Werror) $(if $(ASSERTS),-DUSE_ASSERT_CHECKING) \
	$(if $(FAULTS),-DSL_FAULTS) $(if $(UBSAN),$(UBSAN_FLAGS))
GCC_FLAGS = -Wlogical-op -Wduplicated-cond -Wduplicated-branches
# PGXS hands clang the flags of the gcc that built the server.
CLANG_FLAGS = -Wno-unknown-warning-option -Wno-ignored-attributes -Wno-ignored-optimization-argument
UBSAN_FLAGS = -fsanitize=undefined -fno-sanitize-recover=undefined
SHLIB_LINK = $(libpq) $(if $(UBSAN),$(UBSAN_FLAGS))

# Bitcode would double the build time, need clang everywhere, and let the JIT
# compiler inline functions that are never called per row.
override with_llvm := no

# "setup" makes the extension and the shards; every other test runs alone after it.
REGRESS = setup $(filter-out setup $(EXTENSION)--%,$(patsubst sql/%.sql,%,$(sort $(wildcard sql/*.sql))))
REGRESS_OPTS = --temp-instance=tmp_check --temp-config=test/conf/regress.conf --encoding=UTF8
ISOLATION = $(patsubst test/isolation/specs/%.spec,%,$(sort $(wildcard test/isolation/specs/*.spec)))
ISOLATION_OPTS = --inputdir=test/isolation --temp-instance=tmp_check_iso \
	--temp-config=test/conf/regress.conf --encoding=UTF8 --load-extension=$(EXTENSION)
TAP_TESTS = 1
PROVE_TESTS = $(filter-out test/t/9%,$(sort $(wildcard test/t/*.pl)))

EXTRA_CLEAN = .flags .build log $(OBJS:.o=.d)

PG_CONFIG ?= pg_config
PGXS := $(shell $(PG_CONFIG) --pgxs)
include $(PGXS)

# PGXS sets this one again, so it cannot stand above.
PROVE_FLAGS += -I test/perl

# Objects made with other switches, or for another server, are not reused.
FLAGS := $(strip $(PGXS) $(CC) $(CPPFLAGS) $(CFLAGS))
ifneq ($(FLAGS),$(file <.flags))
$(file >.flags,$(FLAGS))
endif
.flags:
	$(file >$@,$(FLAGS))@:
$(OBJS): .flags
-include $(OBJS:.o=.d)

# The folder itself is a prerequisite for the sake of pieces that were removed.
$(DATA_built): sql/install $(sort $(wildcard sql/install/*.sql))
	cat $(filter %.sql,$^) > $@

endif
