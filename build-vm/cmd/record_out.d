build-vm/cmd/record_out.o: src/cmd/record_out.c src/cmd/record.h \
 src/sink/sink.h src/engine/engine.h src/probe.h src/record.h \
 src/record.h src/target/tasks.h src/io/writer.h src/sink/profile.h \
 src/target/process.h src/util/envhash.h src/util/log.h src/util/parse.h
src/cmd/record.h:
src/sink/sink.h:
src/engine/engine.h:
src/probe.h:
src/record.h:
src/record.h:
src/target/tasks.h:
src/io/writer.h:
src/sink/profile.h:
src/target/process.h:
src/util/envhash.h:
src/util/log.h:
src/util/parse.h:
