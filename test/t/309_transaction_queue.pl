# A queue over four shards and eight workers: no job is taken twice, none is left over,
# and none is passed over while it is free, also when a shard dies.

use strict;
use warnings;

use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;

my $workers = 8;
my $c = ShardletCluster->new(shards => 4);
$c->sql(q{
	SELECT shardlet.create_map('m');
	CREATE TABLE job (id int PRIMARY KEY, st text NOT NULL DEFAULT 'new', times int NOT NULL DEFAULT 0);
	SELECT shardlet.distribute('job', 'm', 'id');
	CREATE SEQUENCE arrivals;
});

my $take = q{SELECT id FROM job WHERE st = 'new' ORDER BY id LIMIT %d FOR UPDATE SKIP LOCKED};
my %way = (
	scalar => q{UPDATE job SET st = 'run', times = times + 1 WHERE id = (SELECT id FROM job WHERE st = 'new' ORDER BY id LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id},
	in => q{UPDATE job SET st = 'run', times = times + 1 WHERE id IN (SELECT id FROM job WHERE st = 'new' ORDER BY id LIMIT 3 FOR UPDATE SKIP LOCKED) RETURNING id},
	with => q{WITH c AS (SELECT id FROM job WHERE st = 'new' ORDER BY id LIMIT 2 FOR UPDATE SKIP LOCKED) UPDATE job SET st = 'run', times = times + 1 FROM c WHERE c.id = job.id RETURNING job.id},
	any => q{UPDATE job SET st = 'run', times = times + 1 WHERE id = (SELECT id FROM job WHERE st = 'new' LIMIT 1 FOR UPDATE SKIP LOCKED) RETURNING id},
	wait => q{UPDATE job SET st = 'run', times = times + 1 WHERE id = (SELECT id FROM job WHERE st = 'new' ORDER BY id LIMIT 1 FOR UPDATE) RETURNING id});

sub fill
{
	my ($count) = @_;
	return $c->sql("TRUNCATE job; INSERT INTO job (id) SELECT generate_series(1, $count)");
}

# A script that takes jobs, each in a transaction of its own, until there are no more.
sub worker
{
	my ($statement) = @_;
	return qq{
		DO \$\$
		DECLARE
			taken int;
			any_taken bool;
		BEGIN
			LOOP
				any_taken := false;
				FOR taken IN $statement LOOP
					RAISE NOTICE 'job %', taken;
					any_taken := true;
				END LOOP;
				COMMIT;
				EXIT WHEN NOT any_taken;
			END LOOP;
		END \$\$;};
}

# Runs the workers.  Returns the jobs that each has taken.
sub run_workers
{
	my ($statement) = @_;
	my @sessions = map { $c->psql_begin(worker($statement)) } 1 .. $workers;
	my @result;

	for (@sessions)
	{
		my ($status, undef, $stderr) = $c->psql_end($_);
		is($status, 0, 'worker without an error') or diag($stderr);
		push @result, [ $stderr =~ /job (\d+)/g ];
	}
	return @result;
}

for my $name (sort keys %way)
{
	my $count = 160;
	fill($count);
	my @taken = run_workers($way{$name});
	my @all = sort { $a <=> $b } map { @$_ } @taken;
	is("@all", join(' ', 1 .. $count), "$name: each job is taken once");
	is($c->sql(q{SELECT st, times, count(*) FROM job GROUP BY 1, 2}), "run|1|$count", "$name: and none is left over");
}

# Each worker holds what it got until all have: there is enough for each, so no worker
# may go without.
for my $limit (1, 3)
{
	my $statement = sprintf($take, $limit);
	my $short = 0;
	my %seen;

	for my $round (1 .. 5)
	{
		fill($workers * $limit);
		$c->sql(q{SELECT setval('arrivals', 1, false)});
		my @sessions = map {
			$c->psql_begin(qq{
				BEGIN;
				$statement;
				SELECT 'arrival ' || nextval('arrivals');
				DO \$\$ BEGIN
					FOR i IN 1 .. 6000 LOOP
						EXIT WHEN (SELECT last_value FROM arrivals) >= $workers;
						PERFORM pg_sleep(0.01);
					END LOOP;
				END \$\$;
				COMMIT;})
		} 1 .. $workers;
		my @all;
		for (@sessions)
		{
			my ($status, $stdout, $stderr) = $c->psql_end($_);
			my @jobs = $stdout =~ /^(\d+)$/mg;
			diag($stderr) if $status != 0;
			$short++ if @jobs != $limit;
			push @all, @jobs;
		}
		$seen{ join(' ', sort { $a <=> $b } @all) } = 1;
	}
	is($short, 0, "LIMIT $limit: no worker goes without while rows are free");
	is(join('; ', keys %seen), join(' ', 1 .. $workers * $limit), "LIMIT $limit: and no two get the same");
}

# Which shard has the first job, and which has none of the first two?
fill(40);
my $first = $c->sql(q{SELECT shardlet.route('m', 1)});
my ($other) = grep { $_ ne $first } qw(s1 s2 s3 s4);

# A shard that has lost has no part in the transaction: its death does not matter.
my $session = $c->psql_begin(qq{
	BEGIN;
	} . sprintf($take, 1) . qq{;
	SELECT pg_sleep(1);
	UPDATE job SET st = 'run' WHERE id = 1;
	SELECT pg_sleep(3);
	COMMIT;});
ok($c->poll(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3)%' AND state = 'active' AND pid <> pg_backend_pid()}), 'a worker has a job');
$c->kill9($c->shard($other));
my ($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), '', 'and keeps it when another shard dies');
$c->start($c->shard($other));
is($c->sql(q{SELECT st FROM job WHERE id = 1}), 'run', 'it is committed');

# The shard of the job dies: an error that names it, and the job is free again.
fill(40);
$session = $c->psql_begin(qq{
	BEGIN;
	} . sprintf($take, 1) . qq{;
	SELECT pg_sleep(3);
	UPDATE job SET st = 'run' WHERE id = 1;
	COMMIT;});
ok($c->poll(q{SELECT count(*) > 0 FROM pg_stat_activity WHERE query LIKE '%pg_sleep(3)%' AND state = 'active' AND pid <> pg_backend_pid()}), 'a worker has a job');
$c->kill9($c->shard($first));
($status, undef, $stderr) = $c->psql_end($session);
is($c->sqlstate_of($status, $stderr), 'SL004', 'the shard of a job dies');
like($stderr, qr/shard "$first"/, 'the error names it');
is($c->sqlstate(sprintf($take, 1)), 'SL004', 'a queue with a shard that is away is an error');
$c->start($c->shard($first));
is($c->sql(sprintf($take, 1)), 1, 'the job is free again');

# One dies while all workers are busy.  They begin again after an error.
fill(300);
my @sessions = map { $c->psql_begin(worker($way{scalar})) } 1 .. $workers;
ok($c->poll(q{SELECT count(*) > 10 FROM job WHERE st = 'run'}), 'workers are busy');
$c->kill9($c->shard($other));
my @states;
for (@sessions)
{
	my ($state, undef, $error) = $c->psql_end($_);
	push @states, $c->sqlstate_of($state, $error);
}
is(scalar(grep { $_ !~ /^(?:SL004|08\w\w\w|)$/ } @states), 0, 'errors say that a shard is away') or diag("@states");
$c->start($c->shard($other));
run_workers($way{scalar});
is($c->sql(q{SELECT st, times, count(*) FROM job GROUP BY 1, 2}), 'run|1|300', 'no job is lost, none is done twice');
is($c->sql(q{SELECT count(*) FROM shardlet.prepared_transactions}), 0, 'and nothing is left behind');

done_testing();
