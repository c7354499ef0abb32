
# FuzzingProxy
#	A CuttingProxy that changes messages: what a broken server, a pooler with a
#	bug or a man in the middle might send.
#
#	my $p = FuzzingProxy->new(host => '127.0.0.1', port => $node->port);
#	for my $name (FuzzingProxy::alterations('D'))
#	{
#		$p->rule($name => 'server', type => 'D', nth => 2);
#		...
#	}
#
# Each alteration strikes one message.  None of them makes a message that a server
# could have sent in its place with another meaning: an integer with another value
# is beyond what the receiver can find out.

package FuzzingProxy;

use strict;
use warnings;

use CuttingProxy;

our @ISA = ('CuttingProxy');

# Types that a message is given in place of its own.
my @types = qw(1 2 3 C D E G H I K N S T W Z A n s t ~);

# More notices, or settings that are reported, than a reader should have to take.
use constant FLOOD => 200_000;

sub _message
{
	my ($type, $body) = @_;
	return $type . pack('N', 4 + length $body) . $body;
}

sub _type { return substr $_[0], 0, 1 }
sub _body { return substr $_[0], 5 }

# The same with another length in its head.
sub _claim
{
	my ($message, $length) = @_;
	return _type($message) . pack('N', $length & 0xFFFFFFFF) . _body($message);
}

# The count of columns at the beginning differs.
sub _recount
{
	my ($message, $by) = @_;
	my $body = _body($message);
	return $message if length $body < 2;
	return _message(_type($message), pack('n', (unpack('n', $body) + $by) & 0xFFFF) . substr $body, 2);
}

# Every value of a row is given to a function, which returns another.
sub _values
{
	my ($message, $change) = @_;
	my ($count, $rest) = unpack 'na*', _body($message);
	my $body = pack 'n', $count;

	for (1 .. $count)
	{
		(my $length, $rest) = unpack 'l>a*', $rest;
		my $value = $length < 0 ? undef : substr $rest, 0, $length, '';
		$value = $change->($value) if defined $value;
		$body .= defined $value ? pack('l>/a*', $value) : pack('l>', -1);
	}
	return _message('D', $body);
}

# Every column of a description is given to a function: name, its fields.
sub _columns
{
	my ($message, $change) = @_;
	my ($count, $rest) = unpack 'na*', _body($message);
	my $body = pack 'n', $count;

	for (1 .. $count)
	{
		my ($name, @field) = unpack 'Z*NnNnNn', $rest;
		substr $rest, 0, length($name) + 19, '';
		$body .= pack 'Z*NnNnNn', $change->($name, @field);
	}
	return _message('T', $body);
}

my %any = (
	drop         => sub { '' },
	double       => sub { $_[0] . $_[0] },
	triple       => sub { $_[0] x 3 },
	cut_byte     => sub { _message(_type($_[0]), substr(_body($_[0]), 0, -1) // '') },
	cut_half     => sub { my $b = _body($_[0]); _message(_type($_[0]), substr $b, 0, length($b) / 2) },
	cut_all      => sub { _message(_type($_[0]), '') },
	add_byte     => sub { _message(_type($_[0]), _body($_[0]) . "\0") },
	length_less  => sub { _claim($_[0], length($_[0]) - 2) },
	length_more  => sub { _claim($_[0], length($_[0]) + 3) },
	length_three => sub { _claim($_[0], 3) },
	length_huge  => sub { _claim($_[0], 0x7FFFFFF0) },
	length_minus => sub { _claim($_[0], -1) },
	noise        => sub { "\xff\x00\x80noise" . $_[0] },
	ready        => sub { _message('Z', 'I') . $_[0] },
	columns      => sub { _message('T', pack 'nZ*NnNnNn', 1, 'x', 0, 0, 25, 0xFFFF, 0xFFFFFFFF, 0) . $_[0] },
	row          => sub { _message('D', pack 'nN/a*', 1, 'x') . $_[0] },
	complete     => sub { _message('C', "SELECT 1\0") . $_[0] },
	notify       => sub { _message('A', pack 'NZ*Z*', 1, 'x', 'y') . $_[0] },
	bad_notice   => sub { _message('N', "SNOTICE\0VNOTICE\0C00000\0Mbad \xff\xfe text\0\0") . $_[0] },
	long_notice  => sub { _message('N', "SWARNING\0VWARNING\0C01000\0M" . 'x' x 1_000_000 . "\0\0") . $_[0] },
	bad_setting  => sub { _message('S', "client_encoding\0\xff\xfe\0") . $_[0] },
);

my %special = (
	C => {
		tag_none => sub { _message('C', "\0") },
		tag_bad  => sub { _message('C', "\xff\xfe\0") },
	},
	D => {
		count_more  => sub { _recount($_[0], 1) },
		count_less  => sub { _recount($_[0], -1) },
		value_short => sub { _values($_[0], sub { length $_[0] == 8 ? substr $_[0], 0, 7 : $_[0] }) },
		value_long  => sub { _values($_[0], sub { length $_[0] == 8 ? "$_[0]\0" : $_[0] }) },
		value_none  => sub { _values($_[0], sub { length $_[0] == 8 ? '' : $_[0] }) },
		text_bad    => sub { _values($_[0], sub { $_[0] =~ /^row/ ? "\xff\xfe" : $_[0] }) },
		text_cut    => sub { _values($_[0], sub { $_[0] =~ /^row/ ? "caf\xc3" : $_[0] }) },
		text_zero   => sub { _values($_[0], sub { $_[0] =~ /^row/ ? "a\0b" : $_[0] }) },
		value_huge  => sub { my $b = _body($_[0]); _message('D', substr($b, 0, 2) . pack('N', 0x7FFFFFFF) . substr $b, 6) },
	},
	E => {
		no_sqlstate  => sub { _message('E', "SERROR\0Mwithout a code\0\0") },
		bad_sqlstate => sub { _message('E', "SERROR\0VERROR\0Cx\xff!\x01\x02\0Mwith a bad code\0\0") },
		bad_text     => sub { _message('E', "SERROR\0VERROR\0C22012\0Mbad \xff\xfe text\0D\xc3\0H\xe2\x82\0\0") },
		long_text    => sub { _message('E', "SERROR\0VERROR\0C22012\0M" . 'm' x 3_000_000 . "\0D" . 'd' x 3_000_000 . "\0\0") },
		no_end       => sub { _message('E', "SERROR\0VERROR\0C22012\0Mno end") },
	},
	N => { bad_text => sub { _message('N', "SNOTICE\0VNOTICE\0C00000\0Mbad \xff\xfe text\0\0") } },
	T => {
		count_more => sub { _recount($_[0], 1) },
		count_less => sub { _recount($_[0], -1) },
		name_bad   => sub { _columns($_[0], sub { ("\xff\xfe", @_[1 .. 6]) }) },
		type_other => sub { _columns($_[0], sub { (@_[0 .. 2], $_[3] == 20 ? 1114 : 20, @_[4 .. 6]) }) },
		type_none  => sub { _columns($_[0], sub { (@_[0 .. 2], 4_000_000_000, @_[4 .. 6]) }) },
		format     => sub { _columns($_[0], sub { (@_[0 .. 5], 1 - ($_[6] & 1)) }) },
		none       => sub { _message('T', pack 'n', 0) },
	},
	Z => { state_bad => sub { _message('Z', '?') } },
	t => { count_more => sub { _recount($_[0], 1) } },
);

# These are not for every type; a test asks for them by name.
my %flood = (
	flood_notice   => sub { _message('N', "SNOTICE\0VNOTICE\0C00000\0Mmore and more\0\0") x FLOOD . $_[0] },
	flood_warning  => sub { _message('N', "SWARNING\0VWARNING\0C01000\0Mmore and more\0\0") x FLOOD . $_[0] },
	flood_settings => sub { join('', map { _message('S', "x.y$_\0z\0") } 1 .. FLOOD / 10) . $_[0] },
	flood_notify   => sub { _message('A', pack 'NZ*Z*', 1, 'x', 'y') x FLOOD . $_[0] },
	endless_notices => sub { _message('N', "SWARNING\0VWARNING\0C01000\0Mon and on\0\0") x 1000 },
	endless_settings => sub { _message('S', "x.y\0z\0") x 1000 },
	endless_rows   => sub { $_[0] x 1000 },
	huge_error     => sub { _message('E', "SERROR\0VERROR\0C22012\0M" . 'm' x 20_000_000 . "\0\0") },
);

%CuttingProxy::alteration = (%any, %flood);
for my $type (keys %special)
{
	$CuttingProxy::alteration{"${type}_$_"} = $special{$type}{$_} for keys %{ $special{$type} };
}
for my $type (@types)
{
	$CuttingProxy::alteration{"type_$type"} = sub { $type . substr $_[0], 1 };
}

# The names of what can be made of a message of the type.
sub alterations
{
	my ($type) = @_;
	return sort(keys %any, (map { "${type}_$_" } keys %{ $special{$type} // {} }),
		map { "type_$_" } grep { $_ ne $type } @types);
}

1;
