
# Statements that end early, by a time-out or a LIMIT, leave nothing behind in
# the session: no file descriptor, no memory.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $c = ShardletCluster->new(shards => 2, local => 1);
$c->sql(q{SELECT shardlet.create_map('m')});
$c->sql(q{SELECT * FROM shardlet.execute('m', 'CREATE FUNCTION noisy(i int) RETURNS int LANGUAGE plpgsql AS $f$ BEGIN RAISE NOTICE ''%'', repeat(''x'', 500); RETURN i; END $f$')});

# Descriptors of the session's own process, and all memory of the extension.
my $files = q{SELECT count(*) FROM pg_ls_dir('/proc/self/fd');};
my $memory = q{SELECT sum(total_bytes) / 1000000 FROM pg_backend_memory_contexts WHERE name LIKE 'shardlet%';};
my $warm = q{SELECT count(*) FROM shardlet.query('m', 'SELECT 1') AS q(a int);};

SKIP:
{
	skip 'there is no /proc', 2 if !-d '/proc/self/fd';
	for my $statement (
		q{SELECT * FROM shardlet.execute('m', 'SELECT pg_sleep(0.1)');},
		q{SELECT * FROM shardlet.query('m', 'SELECT pg_sleep(0.1)') AS q(a text);})
	{
		my (undef, $stdout) = $c->psql_err("\\set ON_ERROR_STOP 0\n$warm\nSET statement_timeout = '20ms';\n$statement\n$files\n" . "$statement\n" x 20 . $files);
		my @line = split /\n/, $stdout;
		# Up to eight sets of wait events are kept.
		cmp_ok($line[2], '<=', $line[1] + 8, "no descriptor is left by $statement");
	}
}

my $early = q{DO $$ BEGIN FOR i IN 1 .. 20 LOOP PERFORM a FROM shardlet.query('m', 'SELECT noisy(i) FROM generate_series(1, 5000) i') AS q(a int) LIMIT 1; END LOOP; END $$;};
my $stdout = $c->sql("SET client_min_messages = warning;\n$early\n$memory\n$early\n$early\n$memory");
my ($before, $after) = split /\n/, $stdout;
cmp_ok($after, '<', $before + 5, 'notices of statements that end early are freed');

$c->destroy;
done_testing();
