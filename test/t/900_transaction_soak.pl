
# Bank transfers over four shards while every second something dies: no money is
# made or lost, no transfer is half done, and a session that was told that one is done
# finds it.
#
# SL_SOAK_SECONDS is how long, SL_SOAK_SEED repeats the same faults.

use strict;
use warnings;

use POSIX ();
use PostgreSQL::Test::Utils;
use ShardletCluster;
use Test::More;
use Time::HiRes qw(sleep time);
use TransactionProbe;

my $seconds = $ENV{SL_SOAK_SECONDS} || 60;
my $seed = $ENV{SL_SOAK_SEED} || int time;
my $sessions = 4;
my $shards = 4;

# Few, so that transfers meet.
my $accounts = 10;

# What a client may be told: unreachable, unknown, timed out and deadlocked.
my $allowed = qr/^(?:SL004|08007|57014|40P01)$/;

my $c = ShardletCluster->new(shards => $shards, proxy => 1, router_conf => "restart_after_crash = on
shardlet.silence_timeout = 1s
shardlet.connect_timeout = 1s
statement_timeout = 10s
log_statement = none
", shard_conf => "log_statement = none\n");
my $router = $c->router;
my $probe = TransactionProbe->new($c);
my $folder = PostgreSQL::Test::Utils::tempdir;
my $stop = "$folder/stop";

# Each account's rows of the ledger are on its shard; a local one makes the
# router's own commit part of it.
$c->sql(q{
	SELECT * FROM shardlet.execute('m', 'CREATE TABLE ledger (transfer text, account bigint, amount int)');
	CREATE TABLE local_ledger (transfer text);
	CREATE FUNCTION post(transfer text, account bigint, amount int) RETURNS void LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM * FROM shardlet.query_key('m', 'UPDATE acct SET v = v + $1 WHERE id = $2 RETURNING v', ARRAY[amount, account]::text[], account) AS q(v int);
		PERFORM * FROM shardlet.query_key('m', 'INSERT INTO ledger VALUES ($1, $2, $3) RETURNING amount', ARRAY[transfer, account::text, amount::text], account) AS q(v int);
	END $$;
	CREATE FUNCTION transfer(transfer text, payer bigint, payee bigint, amount int) RETURNS text LANGUAGE plpgsql AS $$
	BEGIN
		PERFORM post(transfer, payer, -amount);
		PERFORM post(transfer, payee, amount);
		IF transfer LIKE '%local' THEN
			INSERT INTO local_ledger VALUES (transfer);
		END IF;
		RETURN transfer;
	END $$;
});

# Sessions -------------------------------------------------------------------------

# Runs SQL and appends to a file what psql prints: a transfer is printed when its
# statement, and with it its transaction, has succeeded.  Returns the errors, as
# line and SQLSTATE, but not the last words of a session: these do not say what
# became of its transaction.
sub run_psql
{
	my ($file, $sql) = @_;
	my @errors;

	append_to_file("$file.sql", $sql);
	system("timeout -k 1 90 psql -XAtq -v VERBOSITY=verbose -d '" . $router->connstr('app') . "' -f $file.sql >>$file.out 2>$file.err");
	push @errors, [ 1, 'hangs' ] if $? >> 8 == 124;

	# While the router is down this would turn in circles.
	sleep 0.1 if $? != 0;
	my $err = slurp_file("$file.err");
	push @errors, [ $1, $2 ] while $err =~ /^psql:\S+:(\d+): ERROR:  (\w{5}):/mg;
	unlink "$file.sql", "$file.err";
	return @errors;
}

sub in_child
{
	my ($work) = @_;
	my $parent = $$;
	my $pid = fork() // die "could not fork: $!";
	return $pid if $pid;
	until (-e $stop || getppid() != $parent)
	{
		eval { $work->(); 1 } or print STDERR $@;
	}
	POSIX::_exit(0);
}

sub some_account
{
	my $keys = $probe->{keys}{ 's' . (1 + int rand $shards) };
	return $keys->[ int rand $accounts ];
}

sub transfer_money
{
	my ($session, $number) = @_;
	my $file = "$folder/session$session";
	my $sql = '';
	my @names;

	for (1 .. 20)
	{
		my ($payer, $payee) = (some_account(), some_account());
		next if $payer == $payee;
		my $name = "$session-" . ++$$number . (rand() < 0.2 ? '-local' : '');
		push @names, $name;
		$sql .= sprintf "SELECT transfer('%s', %d, %d, %d);\n", $name, $payer, $payee, 1 + int rand 100;
	}
	append_to_file("$file.told", "$names[ $_->[0] - 1 ] $_->[1]\n") for run_psql($file, $sql);
	return;
}

# Every sum that is answered at all is the right one, whatever has just died.
sub sum_up
{
	run_psql("$folder/sum", q{SET shardlet.consistent_reads = on; SELECT sum(v) FROM shardlet.query('m', 'SELECT v FROM acct') AS q(v int);} . "\n");
	return;
}

# Faults ---------------------------------------------------------------------------

my (%down, @later, %happened);

# What ends a fault happens in time, and at the end at the latest.
sub later
{
	my ($delay, $work) = @_;
	push @later, [ time + $delay, $work ];
	return;
}

sub do_what_is_due
{
	my ($now) = @_;
	my @due = grep { $_->[0] <= $now } @later;

	@later = grep { $_->[0] > $now } @later;
	$_->[1]->() for sort { $a->[0] <=> $b->[0] } @due;
	return;
}

sub take_down
{
	my ($node, $how) = @_;
	return if $down{ $node->name };
	$down{ $node->name } = 1;
	$c->$how($node);
	later(rand 2, sub { $c->start($node); delete $down{ $node->name } });
	return;
}

sub any_of { return $_[ int rand @_ ] }
sub any_shard { return $c->shard(1 + int rand $shards) }
sub any_proxy { return $c->proxy(1 + int rand $shards) }

# Something goes wrong with one message of a kind, and with what comes after it.
sub break_message
{
	my ($action, $delay, $end) = @_;
	my $proxy = any_proxy();
	my $side = any_of(qw(client server));
	my $text = any_of('', '', 'PREPARE TRANSACTION', 'COMMIT PREPARED', "COMMIT\0", 'shardlet_commit_', 'ROLLBACK');

	$proxy->rule($action => $side, ($text ? (type => $side eq 'client' ? 'P' : 'C', text => $text) : ()));
	later($delay, sub { $proxy->$end });
	return;
}

sub kill_backend
{
	return if $down{router};
	my ($status, $pids) = $c->psql_err(q{SELECT pid FROM pg_stat_activity WHERE datname = 'app' AND pid <> pg_backend_pid()}, timeout => 2);
	my @pids = split /\n/, $pids;
	kill 'KILL', any_of(@pids) if $status == 0 && @pids;
	return;
}

my %fault = (
	'a backend is killed'    => \&kill_backend,
	'the router is killed'   => sub { take_down($router, 'kill9') },
	'a shard is killed'      => sub { take_down(any_shard(), 'kill9') },
	'a shard is stopped'     => sub { take_down(any_shard(), 'stop_immediate') },
	'a connection is cut'    => sub { break_message('cut', 1, 'normal') },
	'a shard is silent'      => sub { break_message('blackhole', rand 3, any_of('normal', 'reset')) },
	'a connection is silent' => sub { break_message('mute', rand 3, any_of('normal', 'reset')) },
	'a network is reset'     => sub { any_proxy()->reset });

sub bring_everything_up
{
	do_what_is_due(9**9**9);
	$c->proxy($_)->normal for 1 .. $shards;
	return;
}

# It begins ------------------------------------------------------------------------

note "SL_SOAK_SEED=$seed";
my @children;
for my $session (1 .. $sessions)
{
	srand($seed + $session);
	my $number = 0;
	push @children, in_child(sub { transfer_money($session, \$number) });
}
push @children, in_child(\&sum_up);
srand($seed);

my $end = time + $seconds;
my $next = time + 1;
while (time < $end)
{
	do_what_is_due(time);
	if (time >= $next)
	{
		my $name = any_of(sort keys %fault);
		note sprintf '%.1f s: %s', $seconds - ($end - time), $name;
		$happened{$name}++;
		$fault{$name}->();
		$next += 1;
		$next = time if $next < time;
	}
	sleep 0.02;
}
bring_everything_up();

# They go on for a moment in peace.
my $mark = -s "$folder/session1.out" // 0;
sleep 8;
append_to_file($stop, '');
waitpid $_, 0 for @children;
$probe->settle('the end');

# What there is now ----------------------------------------------------------------

my (%ledger, %balance);
for my $shard (map { "s$_" } 1 .. $shards)
{
	for (split /\n/, $c->shard_sql($shard, 'SELECT transfer, account, amount FROM ledger'))
	{
		my ($transfer, $account, $amount) = split /\|/;
		push @{ $ledger{$transfer} }, $amount;
		$balance{$account} += $amount;
	}
}
my %wrong;
for my $shard (map { "s$_" } 1 .. $shards)
{
	for (split /\n/, $c->shard_sql($shard, 'SELECT id, v FROM acct WHERE v <> 0'))
	{
		my ($account, $value) = split /\|/;
		my $posted = delete $balance{$account} // 0;
		$wrong{$account} = "$value and not $posted" if $value != $posted;
	}
}
$wrong{$_} = "nothing and not $balance{$_}" for grep { $balance{$_} != 0 } keys %balance;
is(join(', ', map { "$_: $wrong{$_}" } sort keys %wrong), '', 'every balance is the sum of its ledger');

my @half = grep { @{ $ledger{$_} } != 2 || $ledger{$_}[0] + $ledger{$_}[1] != 0 } sort keys %ledger;
is("@half", '', 'no transfer is half done');
is($c->sql(q{SELECT sum(v) FROM shardlet.query('m', 'SELECT v FROM acct') AS q(v int)}), 0, 'the total');
is(join(' ', sort split /\n/, $c->sql('SELECT transfer FROM local_ledger')), join(' ', sort grep { /local/ } keys %ledger),
	'what was written on the router and on a shard is on both');

my (%told, $acknowledged);
for my $session (1 .. $sessions)
{
	my $file = "$folder/session$session";
	my @acknowledged = split /\n/, slurp_file("$file.out");
	my @missing = grep { !$ledger{$_} } @acknowledged;
	is("@missing", '', "session $session: what was acknowledged is there");
	$acknowledged += @acknowledged;

	my @told = -e "$file.told" ? map { [ split ' ' ] } split /\n/, slurp_file("$file.told") : ();
	my @there = map { "@$_" } grep { $ledger{ $_->[0] } && $_->[1] ne '08007' } @told;
	is("@there", '', "session $session: what failed is not");
	$told{ $_->[1] }++ for @told;
}
cmp_ok($acknowledged, '<=', scalar keys %ledger, 'no more were acknowledged than done');
cmp_ok($acknowledged, '>', 5 * $seconds, 'and not few');
cmp_ok(-s "$folder/session1.out", '>', $mark, 'also after the last fault');
is(join(' ', grep { !/$allowed/ } sort keys %told), '', 'nobody was told anything strange');

my @sums = split /\n/, slurp_file("$folder/sum.out");
is(join(' ', grep { $_ ne '0' } @sums), '', 'every sum that was answered is right');
cmp_ok(scalar @sums, '>', $seconds, 'and not few were');
note explain { acknowledged => $acknowledged, done => scalar keys %ledger, sums => scalar @sums, faults => \%happened, told => \%told };

$c->destroy;
done_testing();
