# checkpoint_seed.pl OPTIONS DIRECTORY: prints a checkpoint as an input of checkpoint.cpp. Its files get the names 1, 2 and 3.
use strict;
use warnings;
my ($options, $directory) = @ARGV;
sub contents {
  my ($name) = @_;
  open my $file, '<:raw', "$directory/$name" or return '';
  local $/;
  return <$file>;
}
my $index = contents('model.safetensors.index.json');
my (@headers, $data);
for my $path (sort glob "$directory/*.safetensors") {
  my $name = $path =~ s/.*\///r;
  my $all = contents($name);
  my $size = unpack 'Q<', $all;
  push @headers, substr($all, 8, $size);
  $data = substr $all, 8 + $size, 64;
  my $number = @headers;
  $index =~ s/"\Q$name\E"/"$number"/g;
}
$#headers = 2;
print join "\0", chr $options, contents('config.json'), contents('hf_quant_config.json'), $index, (map { ($_ // '') =~ s/\s+$//r } @headers), $data;
