
# ShardletCluster
#	A router and n shards, each a server of its own, in one call.
#
#	my $c = ShardletCluster->new(shards => 4);
#	$c->sql('SELECT count(*) FROM orders');
#	is($c->sqlstate('SELECT 1/0'), '22012');
#	$c->kill9($c->shard('s2'));
#	$c->start($c->shard('s2'));
#
# Regress tests keep their shards as databases of one server; here a shard can
# die alone.  Options of new:
#	shards      => 2     servers s1, s2 ...
#	local       => 0     further shards without address: databases on the router
#	add         => 1     0: neither CREATE EXTENSION nor add_shard
#	proxy       => 0     1: a CuttingProxy stands before every shard
#	router_conf => ''    lines for postgresql.conf
#	shard_conf  => ''
#
# PostgreSQL::Test::Cluster sets restart_after_crash = off and log_statement =
# all: a server with a crashed process stays down until start, and the log says
# which SQL a shard got.

package ShardletCluster;

use strict;
use warnings;

use CuttingProxy;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use POSIX ();
use Test::More;
use Time::HiRes qw(sleep time);

# Both sides: connections come by TCP, as in real life, and through the proxy.
my $common_conf = q{
listen_addresses = '127.0.0.1'
wal_level = logical
max_prepared_transactions = 64
max_connections = 250
max_wal_senders = 16
max_replication_slots = 16
max_worker_processes = 24
jit = off
};

sub new
{
	my ($class, %option) = @_;
	my $self = bless { shards => [], proxies => [] }, $class;
	my $shards = $option{shards} // 2;

	$self->{router} = PostgreSQL::Test::Cluster->new('router');
	push @{ $self->{shards} }, PostgreSQL::Test::Cluster->new("s$_")
	  for 1 .. $shards;

	# initdb is most of the time a test takes; it only leaves files, so the
	# servers can be made side by side.  _exit: the child must not stop servers.
	my %child;
	for my $node ($self->{router}, @{ $self->{shards} })
	{
		my $is_router = $node == $self->{router};
		my $pid = fork() // die "could not fork: $!";
		$child{$pid} = 1;
		next if $pid;
		my $made = eval {
			$node->init;
			$node->append_conf('postgresql.conf', $common_conf);
			$node->append_conf('postgresql.conf',
				# Statistics must not depend on how long a test takes.
				"shared_preload_libraries = 'shardlet'\nshardlet.analyze_interval = 0") if $is_router;
			$node->append_conf('postgresql.conf',
				$option{ $is_router ? 'router_conf' : 'shard_conf' } // '');
			1;
		};
		print STDERR $@ if !$made;
		POSIX::_exit($made ? 0 : 1);
	}
	for (keys %child)
	{
		waitpid($_, 0);
		die "could not make a server" if $? != 0;
	}
	for my $node ($self->{router}, @{ $self->{shards} })
	{
		$node->start;
		$node->safe_psql('postgres', 'CREATE DATABASE app');
	}
	if ($option{proxy})
	{
		push @{ $self->{proxies} },
		  CuttingProxy->new(host => '127.0.0.1', port => $_->port)
		  for @{ $self->{shards} };
	}
	if ($option{add} // 1)
	{
		my $count = $shards + ($option{local} // 0);

		$self->sql('CREATE EXTENSION shardlet');
		$self->sql("SELECT shardlet.add_shard('s$_', '" . $self->conninfo($_) . "')")
		  for 1 .. $shards;
		$self->sql("SELECT shardlet.add_shard('s$_')")
		  for $shards + 1 .. $count;
	}
	return $self;
}

sub router
{
	my ($self) = @_;
	return $self->{router};
}

# The server of a shard: shard(2) or shard('s2').
sub shard
{
	my ($self, $name) = @_;
	return $self->{shards}[ _number($name) - 1 ] // die "no shard $name";
}

# The proxy before a shard (option proxy).
sub proxy
{
	my ($self, $name) = @_;
	return $self->{proxies}[ _number($name) - 1 ] // die "no proxy before $name";
}

sub _number
{
	my ($name) = @_;
	$name =~ s/^s//;
	return $name;
}

# How the router reaches a shard: through its proxy, if it has one.
sub conninfo
{
	my ($self, $name) = @_;
	my $proxy = $self->{proxies}[ _number($name) - 1 ];
	my $port = $proxy ? $proxy->port : $self->shard($name)->port;
	return "host=127.0.0.1 port=$port dbname=app";
}

# Runs SQL on the router, or on a shard; dies on an error, returns what psql -At prints.
sub sql
{
	my ($self, $query, %option) = @_;
	return $self->{router}->safe_psql('app', $query, %option);
}

sub shard_sql
{
	my ($self, $name, $query, %option) = @_;
	return $self->shard($name)->safe_psql('app', $query, %option);
}

# Runs SQL that may fail, on the router or on another server (node => $c->shard(1));
# returns (status of psql, stdout, stderr).  Verbose, so that SQLSTATE, DETAIL, HINT
# and CONTEXT can be tested.  A psql that hangs is stopped (timeout => seconds), with
# status -1.
sub psql_err
{
	my ($self, $query, %option) = @_;
	return $self->psql_end($self->psql_begin($query, %option));
}

# The same in two parts, for what happens meanwhile.
#
# Not psql of PostgreSQL::Test::Cluster: it dies of a broken pipe when the server
# is not there to connect to.
my $psql_number = 0;

sub psql_begin
{
	my ($self, $query, %option) = @_;
	my $node = $option{node} // $self->{router};
	my $database = $option{database} // 'app';
	my $file = "$PostgreSQL::Test::Utils::tmp_check/query_" . $node->name . "_$$" . '_' . $psql_number++ . '.sql';
	my $session = { file => $file, stdout => '', stderr => '' };

	open my $handle, '>', $file or die "$file: $!";
	print $handle $query;
	close $handle;
	$session->{timer} = IPC::Run::timer($option{timeout} // $PostgreSQL::Test::Utils::timeout_default);
	$session->{psql} = IPC::Run::start(
		[
			'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-v', 'VERBOSITY=verbose',
			'-d', $node->connstr($database), '-f', $file
		],
		'<', \undef, '>', \$session->{stdout}, '2>', \$session->{stderr}, $session->{timer});
	return $session;
}

sub psql_end
{
	my ($self, $session) = @_;
	my ($psql, $timer) = @$session{qw(psql timer)};

	$psql->pump while $psql->pumpable && !$timer->is_expired;
	unlink $session->{file};
	if ($timer->is_expired)
	{
		$psql->kill_kill;
		return (-1, @$session{qw(stdout stderr)});
	}
	$psql->finish;
	chomp(@$session{qw(stdout stderr)});
	return ($psql->result(0), @$session{qw(stdout stderr)});
}

# The SQLSTATE of the first error, '' when there was none, 'lost' when the session
# ended without one, 'timeout' when it did not end.  Options as above.
sub sqlstate
{
	my ($self, $query, %option) = @_;
	my ($status, undef, $stderr) = $self->psql_err($query, %option);
	return $self->sqlstate_of($status, $stderr);
}

sub sqlstate_of
{
	my ($self, $status, $stderr) = @_;
	return $1 if $stderr =~ /^(?:psql:\S+ )?(?:ERROR|FATAL|PANIC):  (\w{5}): /m;
	return { 0 => '', -1 => 'timeout' }->{$status} // 'lost';
}

# Ends a server as a crash of its machine would: every process at once, and
# nothing of it has a last word.
sub kill9
{
	my ($self, $node) = @_;
	my $postmaster = $node->{_pid} // return;

	# Stopped first, or it would start new children meanwhile.
	kill 'STOP', $postmaster;
	my @pids = ($postmaster, _children($postmaster));
	kill 'KILL', @pids;
	for my $pid (@pids)
	{
		sleep 0.01 while _lives($pid);
	}

	_forget_pid($node);
	return;
}

# A dead server is a zombie until its parent waits for it, which can take long in
# a container: with its lock files there, the next one would not start.
sub _forget_pid
{
	my ($node) = @_;
	unlink $node->data_dir . '/postmaster.pid';
	unlink $node->host . '/.s.PGSQL.' . $node->port . '.lock';
	$node->{_pid} = undef;
	return;
}

sub _children
{
	my ($parent) = @_;
	return grep { (_stat($_))[1] == $parent } map { m{(\d+)} } glob '/proc/[0-9]*';
}

sub _lives
{
	my ($pid) = @_;
	return (_stat($pid))[0] !~ /^[ZX]$/;
}

# State and parent of a process; the name before them may hold anything.
sub _stat
{
	my ($pid) = @_;
	open my $file, '<', "/proc/$pid/stat" or return ('X', 0);
	my $line = <$file> // '';
	return $line =~ /.*\) (\S) (\d+)/s ? ($1, $2) : ('X', 0);
}

sub stop_immediate
{
	my ($self, $node) = @_;
	$node->stop('immediate');
	return;
}

# Starts a server that was stopped, was killed, or went down by itself.
sub start
{
	my ($self, $node) = @_;
	if (defined $node->{_pid})
	{
		for (1 .. 10 * $PostgreSQL::Test::Utils::timeout_default)
		{
			last if !_lives($node->{_pid});
			sleep 0.1;
		}
		_forget_pid($node);
	}
	$node->start;
	return;
}

# Asks the router again and again until the answer is as expected ('t' unless
# told); an error never is.  Returns whether it came.
sub poll
{
	my ($self, $query, $expected, $timeout) = @_;
	my $until = time + ($timeout // $PostgreSQL::Test::Utils::timeout_default);
	my ($status, $stdout, $stderr);

	$expected //= 't';
	while (1)
	{
		($status, $stdout, $stderr) = $self->psql_err($query);
		return 1 if $status == 0 && $stdout eq $expected;
		last if time > $until;
		sleep 0.1;
	}
	diag("waited in vain for \"$expected\" from: $query\nlast answer: $stdout $stderr");
	return 0;
}

# What a server logged since: my $mark = $c->log_mark($node); ...; $c->log_since($node, $mark).
sub log_mark
{
	my ($self, $node) = @_;
	return -s $node->logfile // 0;
}

sub log_since
{
	my ($self, $node, $mark) = @_;
	return slurp_file($node->logfile, $mark);
}

# Ends everything before the test does, for tests that need a second cluster.
sub destroy
{
	my ($self) = @_;
	$_->stop for @{ $self->{proxies} };
	for my $node ($self->{router}, @{ $self->{shards} })
	{
		$node->teardown_node;
		$node->clean_node;
	}
	return;
}

1;
